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
from predictors import Predictor, echo_message, grpc_predictor, predictor, respond_with

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


def ready(instance: Any) -> Any:
    instance.load()
    return instance


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
        response = served.predict({"instances": []})
    assert (response.status_code, response.json()) == (501, {"error": "Could not find PredictorConfig."})


def test_s16_v1_sends_json_and_returns_a_dict() -> None:
    with predictor(respond_with({"predictions": [2]})) as upstream:
        response = asyncio.run(transformer(upstream.host).predict({"instances": [1]}, HEADERS))
    assert response == {"predictions": [2]}
    (one,) = upstream.requests
    assert (one.path, one.json) == ("/v1/models/m:predict", {"instances": [1]})
    assert {name: value for name, value in one.headers.items() if name in HEADERS} == {
        **FORWARDED,
        "host": upstream.host,
        "content-length": str(len(one.body)),
    }
    assert one.headers["content-type"] == "application/json"


def test_s16_v2_sends_tensors_and_returns_an_infer_response() -> None:
    with predictor(respond_with(OUTPUTS)) as upstream:
        response = asyncio.run(transformer(upstream.host, "v2").predict(request(), HEADERS))
        from_dict = asyncio.run(transformer(upstream.host, "v2").predict(request().to_rest()[0]))
    assert isinstance(response, InferResponse)
    assert response.outputs[0].as_numpy().tolist() == [2.0]
    assert isinstance(from_dict, InferResponse)
    assert upstream.requests[0].path == "/v2/models/m/infer"
    assert upstream.requests[0].json["inputs"][0]["data"] == [1.0, 2.0]
    assert upstream.requests[0].headers["authorization"] == "Bearer a"


def test_s16_v2_binary_predicts_against_penstock() -> None:
    @model(inputs=[Tensor("x", np.float32, [-1, 2])], outputs=[Tensor("y", np.float32, [-1, 2])])
    def m(x: Any) -> Any:
        return x * 2

    infer_request = request()
    infer_request.inputs[0].set_data_from_numpy(ROW)
    with Server(m, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        assert server.http_address is not None
        assert server.grpc_address is not None
        over_rest = asyncio.run(transformer(server.http_address, "v2").predict(infer_request))
        over_grpc = asyncio.run(transformer(server.grpc_address, "grpc-v2").predict(infer_request))
    assert over_rest.outputs[0].as_numpy().tolist() == over_grpc.outputs[0].as_numpy().tolist() == [[2.0, 4.0]]


def test_s16_grpc_predictors_get_metadata() -> None:
    with grpc_predictor(echo_message) as upstream:
        response = asyncio.run(transformer(upstream.host, "grpc-v2").predict(request(), HEADERS))
    assert isinstance(response, InferResponse)
    assert response.outputs[0].as_numpy().tolist() == [[1.0, 2.0]]
    message, metadata = upstream.requests[0]
    assert (message.model_name, message.id) == ("m", "1")
    assert metadata["request_type"] == metadata["response_type"] == "grpc_v2"
    assert {name: metadata[name] for name in FORWARDED} == FORWARDED
    assert "cookie" not in metadata


def test_s16_grpc_messages_are_accepted_as_requests() -> None:
    with grpc_predictor(echo_message) as upstream:
        response = asyncio.run(transformer(upstream.host, "grpc-v2").predict(request().to_grpc()))
    assert response.outputs[0].as_numpy().tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("protocol", ["v1", "v2"])
@pytest.mark.parametrize("status", [400, 404, 429, 503])
def test_s16_predictor_status_and_text_reach_the_client(protocol: str, status: int) -> None:
    with (
        predictor(respond_with({"error": "not like this"}, status)) as upstream,
        serving(transformer(upstream.host, protocol)) as served,
    ):
        response = served.predict({"instances": []}) if protocol == "v1" else served.infer()
    assert (response.status_code, response.json()) == (status, {"error": "not like this"})


def test_s16_predictor_error_without_text_hides_its_address() -> None:
    with predictor(lambda _: (502, {}, b"<html>")) as upstream, serving(transformer(upstream.host)) as served:
        response = served.predict({"instances": []})
    assert (response.status_code, response.json()) == (502, {"error": "the predictor answered 502 Bad Gateway"})


def test_s16_predictor_errors_are_http_status_errors() -> None:
    from penstock.compat.kserve.inference_client import HTTPStatusError

    with predictor(respond_with({"error": "no"}, 400)) as upstream, pytest.raises(HTTPStatusError) as caught:
        asyncio.run(transformer(upstream.host).predict({}))
    assert caught.value.response.status_code == 400


def test_s16_grpc_predictor_code_reaches_the_client() -> None:
    def refuse(_: Any, call: Any) -> Any:
        call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many")

    with grpc_predictor(refuse) as upstream, serving(transformer(upstream.host, "grpc-v2")) as served:
        response, refused = served.infer(), served.grpc_error()
    assert (response.status_code, response.json()) == (429, {"error": "too many"})
    assert refused == (CODES.RESOURCE_EXHAUSTED, "too many")


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2"])
def test_s16_unreachable_predictor_is_unavailable(protocol: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        with serving(transformer(host, protocol)) as served:
            response = served.predict({"instances": []}) if protocol == "v1" else served.infer()
    assert response.status_code == 503, response.text
    assert host not in response.text


@pytest.mark.parametrize("protocol", ["v1", "grpc-v2"])
def test_s16_slow_predictor_is_a_timeout(protocol: str) -> None:
    proceed = threading.Event()

    def wait(*_: Any) -> Any:
        proceed.wait(20)
        return (200, {}, b"{}")

    serve: Any = predictor if protocol == "v1" else grpc_predictor
    with serve(wait) as upstream:
        instance = transformer(upstream.host, protocol, predictor_request_timeout_seconds=0.2)
        try:
            with serving(instance) as served:
                response = served.predict({"instances": []}) if protocol == "v1" else served.infer()
        finally:
            proceed.set()
    assert response.status_code == 504, response.text


def test_s16_retries_while_the_predictor_is_unreachable() -> None:
    refused = threading.Event()
    with socket.socket() as bound:
        # Bound and not listening: connections are refused until it listens.
        bound.bind(("127.0.0.1", 0))

        async def predict() -> Any:
            front = transformer(f"127.0.0.1:{bound.getsockname()[1]}", predictor_request_retries=50)
            task = asyncio.create_task(front.predict({"instances": []}))
            await asyncio.sleep(0.05)
            refused.set()
            return await task

        def respond_once() -> None:
            refused.wait(20)
            bound.listen()
            connection, _ = bound.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + b'{"predictions":[]}')

        thread = threading.Thread(target=respond_once)
        thread.start()
        assert asyncio.run(predict()) == {"predictions": []}
        thread.join()


def test_s16_tls_trusts_the_ca_bundle_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"

        def respond() -> None:
            with tls.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n" + b'{"predictions":[]}')

        thread = threading.Thread(target=respond)
        thread.start()
        result = asyncio.run(transformer(host, predictor_use_ssl=True).predict({"instances": []}))
        thread.join()
    assert result == {"predictions": []}


def test_s16_transformers_change_requests_and_responses() -> None:
    class Transformer(Model):
        def preprocess(self, payload: Any, headers: Any = None) -> Any:
            return {"instances": [one * 2 for one in payload["instances"]]}

        def postprocess(self, result: Any, headers: Any = None) -> Any:
            return {"predictions": [one + 1 for one in result["predictions"]]}

    with predictor(lambda one: respond_with({"predictions": one.json["instances"]})(one)) as upstream:
        instance = Transformer("m")
        instance.predictor_host = upstream.host
        with serving(ready(instance)) as served:
            assert served.predict({"instances": [1, 2]}).json() == {"predictions": [3, 5]}


def test_s16_predictor_headers_are_sent_without_body_headers() -> None:
    with predictor(respond_with({"predictions": []}, x_own="1", server="theirs")) as upstream:
        instance = Model("m", return_response_headers=True)
        instance.predictor_host = upstream.host
        with serving(ready(instance)) as served:
            response = served.predict({"instances": []})
    assert response.headers["x-own"] == "1"
    assert response.headers.get("server") != "theirs"
    assert response.json() == {"predictions": []}


def test_s16_v2_to_v2_preserves_tensors() -> None:
    with predictor(respond_with(OUTPUTS)) as upstream, serving(transformer(upstream.host, "v2")) as served:
        response = served.infer(request_of(x=ROW))
    assert response.json()["outputs"][0]["data"] == [2.0]


def test_s13_explain_calls_the_explainer_in_v1() -> None:
    with predictor(respond_with({"explanations": [1]})) as upstream:
        instance = Model("m", PredictorConfig("unused", "v2"))
        instance.explainer_host = upstream.host
        with serving(ready(instance)) as served:
            response = served.post("/v1/models/m:explain", {"instances": [1]}, x_request_id="r")
    assert response.json() == {"explanations": [1]}
    (one,) = upstream.requests
    assert (one.path, one.json, one.headers["x-request-id"]) == ("/v1/models/m:explain", {"instances": [1]}, "r")


def test_s13_explain_without_an_explainer_is_not_implemented() -> None:
    with serving(ready(Model("m"))) as served:
        response = served.post("/v1/models/m:explain", {"instances": [1]})
    assert (response.status_code, response.json()) == (501, {"error": "Could not find explainer_host."})


def test_s13_explainer_error_reaches_the_client() -> None:
    with predictor(respond_with({"error": "no"}, 400)) as upstream:
        instance = ready(Model("m"))
        instance.explainer_host = upstream.host
        with serving(instance) as served:
            response = served.post("/v1/models/m:explain", {"instances": [1]})
    assert (response.status_code, response.json()) == (400, {"error": "no"})


def test_s16_scripts_may_override_predictor_calls() -> None:
    class Own(Model):
        async def _http_predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            return {"predictions": ["own"]}

    instance = Own("m", PredictorConfig("unused"))
    assert asyncio.run(instance.predict({})) == {"predictions": ["own"]}


def test_s16_models_call_their_own_predictors() -> None:
    hosts: list[Predictor] = []
    with grpc_predictor(echo_message) as one, grpc_predictor(echo_message) as other:
        for upstream in (one, other):
            hosts.append(upstream)
            asyncio.run(transformer(upstream.host, "grpc-v2").predict(request()))
    assert [len(upstream.requests) for upstream in hosts] == [1, 1]
