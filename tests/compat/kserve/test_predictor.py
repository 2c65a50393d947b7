"""S13, S16: the default `predict` and `explain`, which call a predictor or an explainer."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from kserve_serving import CODES, ROW, request_of, serving
from predictors import Predictor, echo_message, grpc_predictor, predictor, said

from penstock import Server, Tensor, model
from penstock.compat.kserve import context
from penstock.compat.kserve._model import predictor as model_predictor
from penstock.compat.kserve.model import Model, PredictorConfig
from penstock.compat.kserve.protocol.infer_type import InferInput, InferRequest, InferResponse

HEADERS = {
    "x-request-id": "r",
    "x-b3-traceid": "t",
    "authorization": "Bearer a",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "cookie": "mine",
    "host": "me",
    "content-length": "3",
}
FORWARDED = {name: value for name, value in HEADERS.items() if name not in ("cookie", "host", "content-length")}
OUTPUTS = {"model_name": "m", "id": "1", "outputs": [{"name": "y", "shape": [1], "datatype": "FP32", "data": [2.0]}]}


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    context.set_predictor_config(None)
    asyncio.run(model_predictor.close_clients())


def ready(made: Any) -> Any:
    made.load()
    return made


def transformer(host: str, protocol: str = "v1", **more: Any) -> Model:
    return ready(Model("m", PredictorConfig(host, protocol, **more)))


def request() -> InferRequest:
    return InferRequest("m", [InferInput("x", [1, 2], "FP32", [1.0, 2.0])], request_id="1")


def test_s16_predict_without_a_predictor_is_not_implemented() -> None:
    with pytest.raises(NotImplementedError, match=r"Could not find PredictorConfig\."):
        asyncio.run(Model("m").predict({}))
    with pytest.raises(NotImplementedError, match=r"Could not find predictor_host\."):
        asyncio.run(Model("m", PredictorConfig("")).predict({}))
    with serving(ready(Model("m"))) as served:
        answer = served.predict({"instances": []})
    assert (answer.status_code, answer.json()) == (501, {"error": "Could not find PredictorConfig."})


def test_s16_v1_sends_json_and_returns_a_dict() -> None:
    with predictor(said({"predictions": [2]})) as asked:
        answer = asyncio.run(transformer(asked.host).predict({"instances": [1]}, HEADERS))
    assert answer == {"predictions": [2]}
    (one,) = asked.asked
    assert (one.path, one.json) == ("/v1/models/m:predict", {"instances": [1]})
    assert {name: value for name, value in one.headers.items() if name in HEADERS} == {
        **FORWARDED,
        "host": asked.host,
        "content-length": str(len(one.body)),
    }
    assert one.headers["content-type"] == "application/json"


def test_s16_v2_sends_tensors_and_returns_an_infer_response() -> None:
    with predictor(said(OUTPUTS)) as asked:
        answer = asyncio.run(transformer(asked.host, "v2").predict(request(), HEADERS))
        of_dict = asyncio.run(transformer(asked.host, "v2").predict(request().to_rest()[0]))
    assert isinstance(answer, InferResponse)
    assert answer.outputs[0].as_numpy().tolist() == [2.0]
    assert isinstance(of_dict, InferResponse)
    assert asked.asked[0].path == "/v2/models/m/infer"
    assert asked.asked[0].json["inputs"][0]["data"] == [1.0, 2.0]
    assert asked.asked[0].headers["authorization"] == "Bearer a"


def test_s16_v2_binary_reaches_a_server_of_ours() -> None:
    @model(inputs=[Tensor("x", np.float32, [-1, 2])], outputs=[Tensor("y", np.float32, [-1, 2])])
    def m(x: Any) -> Any:
        return x * 2

    made = request()
    made.inputs[0].set_data_from_numpy(ROW)
    with Server(m, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        assert server.http_address is not None
        assert server.grpc_address is not None
        over_rest = asyncio.run(transformer(server.http_address, "v2").predict(made))
        over_grpc = asyncio.run(transformer(server.grpc_address, "grpc-v2").predict(made))
    assert over_rest.outputs[0].as_numpy().tolist() == over_grpc.outputs[0].as_numpy().tolist() == [[2.0, 4.0]]


def test_s16_grpc_predictors_get_metadata() -> None:
    with grpc_predictor(echo_message) as asked:
        answer = asyncio.run(transformer(asked.host, "grpc-v2").predict(request(), HEADERS))
    assert isinstance(answer, InferResponse)
    assert answer.outputs[0].as_numpy().tolist() == [[1.0, 2.0]]
    message, metadata = asked.asked[0]
    assert (message.model_name, message.id) == ("m", "1")
    assert metadata["request_type"] == metadata["response_type"] == "grpc_v2"
    assert {name: metadata[name] for name in FORWARDED} == FORWARDED
    assert "cookie" not in metadata


def test_s16_a_message_of_grpc_is_sent_too() -> None:
    with grpc_predictor(echo_message) as asked:
        answer = asyncio.run(transformer(asked.host, "grpc-v2").predict(request().to_grpc()))
    assert answer.outputs[0].as_numpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("protocol", ["v1", "v2"])
@pytest.mark.parametrize("status", [400, 404, 429, 503])
def test_s16_the_predictors_status_and_text_reach_the_client(protocol: str, status: int) -> None:
    with predictor(said({"error": "not like this"}, status)) as asked, serving(transformer(asked.host, protocol)) as us:
        answer = us.predict({"instances": []}) if protocol == "v1" else us.infer()
    assert (answer.status_code, answer.json()) == (status, {"error": "not like this"})


def test_s16_a_predictor_error_without_text_hides_its_address() -> None:
    with predictor(lambda _: (502, {}, b"<html>")) as asked, serving(transformer(asked.host)) as us:
        answer = us.predict({"instances": []})
    assert (answer.status_code, answer.json()) == (502, {"error": "the predictor answered 502 Bad Gateway"})


def test_s16_the_error_is_one_that_scripts_know() -> None:
    from penstock.compat.kserve.inference_client import HTTPStatusError

    with predictor(said({"error": "no"}, 400)) as asked, pytest.raises(HTTPStatusError) as caught:
        asyncio.run(transformer(asked.host).predict({}))
    assert caught.value.response.status_code == 400


def test_s16_a_grpc_predictors_code_reaches_the_client() -> None:
    def refuse(_: Any, call: Any) -> Any:
        call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many")

    with grpc_predictor(refuse) as asked, serving(transformer(asked.host, "grpc-v2")) as us:
        answer, refused = us.infer(), us.refused()
    assert (answer.status_code, answer.json()) == (429, {"error": "too many"})
    assert refused == (CODES.RESOURCE_EXHAUSTED, "too many")


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2"])
def test_s16_an_unreachable_predictor_is_unavailable(protocol: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{nobody.getsockname()[1]}"
        with serving(transformer(host, protocol)) as us:
            answer = us.predict({"instances": []}) if protocol == "v1" else us.infer()
    assert answer.status_code == 503, answer.text
    assert host not in answer.text


@pytest.mark.parametrize("protocol", ["v1", "grpc-v2"])
def test_s16_a_slow_predictor_is_a_timeout(protocol: str) -> None:
    go = threading.Event()

    def wait(*_: Any) -> Any:
        go.wait(20)
        return (200, {}, b"{}")

    serve: Any = predictor if protocol == "v1" else grpc_predictor
    with serve(wait) as asked:
        made = transformer(asked.host, protocol, predictor_request_timeout_seconds=0.2)
        try:
            with serving(made) as us:
                answer = us.predict({"instances": []}) if protocol == "v1" else us.infer()
        finally:
            go.set()
    assert answer.status_code == 504, answer.text


def test_s16_retries_while_the_predictor_is_unreachable() -> None:
    refused = threading.Event()
    with socket.socket() as bound:
        # Bound and not listening: connections are refused until it listens.
        bound.bind(("127.0.0.1", 0))

        async def ask() -> Any:
            made = transformer(f"127.0.0.1:{bound.getsockname()[1]}", predictor_request_retries=50)
            task = asyncio.create_task(made.predict({"instances": []}))
            await asyncio.sleep(0.05)
            refused.set()
            return await task

        def answer_once() -> None:
            refused.wait(20)
            bound.listen()
            connection, _ = bound.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + b'{"predictions":[]}')

        thread = threading.Thread(target=answer_once)
        thread.start()
        assert asyncio.run(ask()) == {"predictions": []}
        thread.join()


def test_s16_tls_trusts_the_environments_ca_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            with served.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + b'{"predictions":[]}')

        thread = threading.Thread(target=answer)
        thread.start()
        answered = asyncio.run(transformer(host, predictor_use_ssl=True).predict({"instances": []}))
        thread.join()
    assert answered == {"predictions": []}


def test_s16_a_transformer_changes_requests_and_responses() -> None:
    class Transformer(Model):
        def preprocess(self, payload: Any, headers: Any = None) -> Any:
            return {"instances": [one * 2 for one in payload["instances"]]}

        def postprocess(self, result: Any, headers: Any = None) -> Any:
            return {"predictions": [one + 1 for one in result["predictions"]]}

    with predictor(lambda one: said({"predictions": one.json["instances"]})(one)) as asked:
        made = Transformer("m")
        made.predictor_host = asked.host
        with serving(ready(made)) as us:
            assert us.predict({"instances": [1, 2]}).json() == {"predictions": [3, 5]}


def test_s16_predictor_headers_are_sent_without_body_headers() -> None:
    with predictor(said({"predictions": []}, x_own="1", server="theirs")) as asked:
        made = Model("m", return_response_headers=True)
        made.predictor_host = asked.host
        with serving(ready(made)) as us:
            answer = us.predict({"instances": []})
    assert answer.headers["x-own"] == "1"
    assert answer.headers.get("server") != "theirs"
    assert answer.json() == {"predictions": []}


def test_s16_v2_to_v2_does_not_change_tensors() -> None:
    with predictor(said(OUTPUTS)) as asked, serving(transformer(asked.host, "v2")) as us:
        answer = us.infer(request_of(x=ROW))
    assert answer.json()["outputs"][0]["data"] == [2.0]


def test_s13_explain_calls_the_explainer_in_v1() -> None:
    with predictor(said({"explanations": [1]})) as asked:
        made = Model("m", PredictorConfig("nobody", "v2"))
        made.explainer_host = asked.host
        with serving(ready(made)) as us:
            answer = us.post("/v1/models/m:explain", {"instances": [1]}, x_request_id="r")
    assert answer.json() == {"explanations": [1]}
    (one,) = asked.asked
    assert (one.path, one.json, one.headers["x-request-id"]) == ("/v1/models/m:explain", {"instances": [1]}, "r")


def test_s13_explain_without_an_explainer_is_not_implemented() -> None:
    with serving(ready(Model("m"))) as us:
        answer = us.post("/v1/models/m:explain", {"instances": [1]})
    assert (answer.status_code, answer.json()) == (501, {"error": "Could not find explainer_host."})


def test_s13_the_explainers_error_reaches_the_client() -> None:
    with predictor(said({"error": "no"}, 400)) as asked:
        made = ready(Model("m"))
        made.explainer_host = asked.host
        with serving(made) as us:
            answer = us.post("/v1/models/m:explain", {"instances": [1]})
    assert (answer.status_code, answer.json()) == (400, {"error": "no"})


def test_s16_scripts_may_override_predictor_calls() -> None:
    class Own(Model):
        async def _http_predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            return {"predictions": ["own"]}

    made = Own("m", PredictorConfig("nobody"))
    assert asyncio.run(made.predict({})) == {"predictions": ["own"]}


def test_s16_two_models_with_two_predictors_ask_each_its_own() -> None:
    hosts: list[Predictor] = []
    with grpc_predictor(echo_message) as one, grpc_predictor(echo_message) as other:
        for asked in (one, other):
            hosts.append(asked)
            asyncio.run(transformer(asked.host, "grpc-v2").predict(request()))
    assert [len(asked.asked) for asked in hosts] == [1, 1]
