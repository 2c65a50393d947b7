"""Fields of the access log: which there are, how they are chosen, and which requests are logged."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import trustme
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import connect, infer, json_body, post, read_response
from penstock import Batching, Request, Response, Server, Tensor, model
from penstock._config.access_log import FIELDS
from waiting import until

X = {"x": np.ones((2, 2), np.float32)}
PORTS: Any = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=Batching(max_size=4096))
def same(x: Any) -> Any:
    return x


@model
def count(to: int) -> Iterator[int]:
    yield from range(to)


@model(routes=["GET /items/{item}", "HEAD /items/{item}"])
def items(request: Request) -> Response:
    return Response(b"x" * 1000)


class Log:
    """Lines of the log of a server."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture
        self.text = ""

    def lines(self, count: int) -> list[str]:
        def is_there() -> bool:
            self.text += self.capture.readouterr().err
            return self.text.count("\n") >= count

        until(is_there, f"{count} lines of the log")
        lines = self.text.splitlines()
        assert len(lines) == count
        return lines

    def entries(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(count)]


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Log:
    return Log(capfd)


def call(server: Server) -> service_pb2_grpc.GRPCInferenceServiceStub:
    return service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(server.grpc_url))


def message(identifier: str, rows: int) -> pb.ModelInferRequest:
    data = np.ones((rows, 2), np.float32).tobytes()
    request = pb.ModelInferRequest(model_name="same", id=identifier, raw_input_contents=[data])
    request.inputs.add(name="x", datatype="FP32", shape=[rows, 2])
    return request


def test_json_has_all_fields_of_a_rest_request(log: Log) -> None:
    body = json_body(X, id="one")
    headers = {"User-Agent": "probe/1.0 (test)", "traceparent": f"00-{TRACE}-b7ad6b7169203331-00"}
    with Server(same, **PORTS, access_log="json") as server:
        response = httpx.post(f"{server.http_url}/v2/models/same/infer", content=body, headers=headers)
    (entry,) = log.entries(1)
    assert tuple(entry) == FIELDS
    added = {
        "address": "127.0.0.1",
        "client": None,
        "method": "POST",
        "route": "/v2/models/{model}/infer",
        "request_bytes": len(body),
        "response_bytes": len(response.content),
        "trace_id": TRACE,
        "user_agent": "probe/1.0 (test)",
        "tls": False,
    }
    assert {name: entry[name] for name in added} == added


@pytest.mark.parametrize(
    ("path", "body", "route"),
    [
        ("/v2/models/same/versions/1/infer", json_body(X), "/v2/models/{model}/versions/{version}/infer"),
        ("/v2/models/nope%0Aforged/infer", json_body(X), "/v2/models/{model}/infer"),
        ("/v1/models/same%3Apredict", b'{"instances": [[1, 2]]}', "/v1/models/{model}:predict"),
        ("/models/count", b'{"to": 1}', "/models/{model}"),
        ("/v2/models/count/generate_stream", b'{"to": 3}', "/v2/models/{model}/generate_stream"),
        ("/v2/health/live", b"", "/v2/health/live"),
        ("/secret/path", b"", None),
    ],
)
def test_route_is_the_pattern_and_never_the_path(path: str, body: bytes, route: str | None, log: Log) -> None:
    with Server(same, count, **PORTS, access_log="json") as server:
        response = httpx.post(server.http_url + path, content=body)
    (entry,) = log.entries(1)
    assert (entry["route"], entry["request_bytes"]) == (route, len(body))
    if "models" in path:
        # Also where the body was sent as a stream.
        assert entry["response_bytes"] == len(response.content)


def test_route_of_a_model_is_its_pattern(log: Log) -> None:
    with Server(items, **PORTS, access_log="json") as server:
        assert len(httpx.get(f"{server.http_url}/items/private").content) == 1000
        assert httpx.head(f"{server.http_url}/items/private").status_code == 200
    got, head = log.entries(2)
    assert (got["method"], got["request_bytes"], got["response_bytes"]) == ("GET", 0, 1000)
    assert (head["method"], head["response_bytes"]) == ("HEAD", 0)
    assert (got["route"], head["route"]) == ("/items/{item}", "/items/{item}")
    assert "private" not in log.text


def test_compressed_and_chunked_bodies_count_as_sent(log: Log) -> None:
    body = json_body({"x": np.zeros((2000, 2), np.float32)})

    def chunks() -> Iterator[bytes]:
        yield body[:1000]
        yield body[1000:]

    with Server(same, **PORTS, access_log="json", compress_answers=True) as server:
        url = f"{server.http_url}/v2/models/same/infer"
        with httpx.stream("POST", url, content=chunks(), headers={"Accept-Encoding": "gzip"}) as response:
            sent = sum(map(len, response.iter_raw()))
            assert response.headers["content-encoding"] == "gzip"
    (entry,) = log.entries(1)
    assert (entry["request_bytes"], entry["response_bytes"]) == (len(body), sent)


def test_grpc_calls_have_their_full_name(log: Log) -> None:
    one, two, wrong = message("one", 1), message("two", 100), message("three", 1)
    wrong.model_name = "nope"
    with Server(same, **PORTS, access_log="json") as server:
        stub = call(server)
        answer = stub.ModelInfer(one)
        answers = list(stub.ModelStreamInfer(iter([one, two, wrong])))
    unary, *streamed = log.entries(4)
    service = "inference.GRPCInferenceService"
    assert (unary["method"], unary["route"]) == ("POST", f"{service}/ModelInfer")
    # With the prefix of the message.
    assert (unary["request_bytes"], unary["response_bytes"]) == (one.ByteSize() + 5, answer.ByteSize() + 5)
    assert unary["user_agent"].startswith("grpc-python/")
    assert unary["address"] == "127.0.0.1"
    assert {entry["route"] for entry in streamed} == {f"{service}/ModelStreamInfer"}
    sizes = {entry["id"]: (entry["request_bytes"], entry["response_bytes"]) for entry in streamed}
    assert sizes["one"] == (one.ByteSize(), answers[0].ByteSize() + 5)
    assert sizes["two"] == (two.ByteSize(), answers[1].ByteSize() + 5)
    (failed,) = [entry for entry in streamed if entry["outcome"] != "ok"]
    assert (failed["request_bytes"], failed["response_bytes"]) == (wrong.ByteSize(), 0)


def test_user_agent_is_escaped_and_limited(log: Log) -> None:
    agent = "a\u202eb\tc\x80\xff " + "x" * 5000
    with Server(same, **PORTS, access_log="json") as server:
        head = [b"POST /v2/models/same/infer HTTP/1.1", b"Host: localhost", b"User-Agent: " + agent.encode()]
        body = json_body(X)
        request = b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"Connection: close", b"", body])
        with connect(server.http_url) as sock:
            sock.sendall(request)
            assert read_response(sock).status == 200
    (entry,) = log.entries(1)
    assert re.fullmatch(r"a\\u\{202e\}b\\u\{9\}c\\u\{80\}ÿ x+…", entry["user_agent"])
    assert len(entry["user_agent"]) < 300


def test_key_and_certificate_name_the_client(tmp_path: Path, log: Log) -> None:
    authority = trustme.CA()
    pem, own = tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(pem)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(own)
    client = tmp_path / "client.pem"
    authority.issue_cert("batch.test").private_key_and_cert_chain_pem.write_to_path(client)
    key = "psk_" + "a" * 40
    keys = tmp_path / "keys.toml"
    digest = hashlib.sha256(key.encode()).hexdigest()
    keys.write_text(f"[[key]]\nname = 'team'\nsha256 = '{digest}'\n")
    keys.chmod(0o600)
    own.chmod(0o600)
    certificates: Any = {"tls_certificate": [own], "tls_key": [own], "tls_client": "required"}
    context = ssl.create_default_context(cafile=pem)
    context.load_cert_chain(client)
    path, body = "/v2/models/same/infer", json_body(X)
    with Server(
        same, http="127.0.0.1:0", grpc=None, access_log="json", tls_client_ca=str(pem), **certificates
    ) as server:
        url = server.http_url.replace("127.0.0.1", "localhost")
        assert httpx.post(url + path, content=body, verify=context).status_code == 200
    with Server(same, http="127.0.0.1:0", grpc=None, access_log="json", keys_file=str(keys)) as server:
        headers = {"authorization": f"Bearer {key}"}
        assert httpx.post(server.http_url + path, content=body, headers=headers).status_code == 200
    by_certificate, by_key = log.entries(2)
    assert (by_certificate["client"], by_certificate["tls"]) == ("batch.test", True)
    assert (by_key["client"], by_key["tls"]) == ("team", False)
    assert key not in log.text


def test_chosen_fields_are_in_the_given_order(log: Log) -> None:
    fields = ("status", "route", "client", "error", "queue_ms")
    with Server(same, **PORTS, access_log="json", access_log_fields=fields) as server:
        infer(server.http_url, "same", X)
    with Server(same, **PORTS, access_log="text", access_log_fields="id,method,error,client,tls") as server:
        infer(server.http_url, "same", X, id='a "b"=c')
        infer(server.http_url, "nope", X, id="two")
    json_line, *texts = log.lines(3)
    assert tuple(json.loads(json_line)) == fields
    assert texts == [
        'id="a \\"b\\"=c" method=POST error=- client=- tls=false',
        """id=#1 method=POST error="unknown model 'nope'" client=- tls=false""",
    ]


def test_failed_requests_are_logged_without_a_sample(log: Log) -> None:
    with Server(same, **PORTS, access_log="json", access_log_sample=0) as server:
        for _ in range(5):
            assert infer(server.http_url, "same", X).status == 200
            assert list(call(server).ModelStreamInfer(iter([message("ok", 1)])))
        assert infer(server.http_url, "nope", X).status == 404
        assert post(server.http_url, "/nope", b"").status == 404
    assert [entry["status"] for entry in log.entries(2)] == [404, 404]


def test_requests_have_their_facts_once_the_log_is_turned_on(log: Log) -> None:
    with Server(same, **PORTS, log_level="off") as server:
        infer(server.http_url, "same", X)
        assert post(server.http_url, "/v2/logging", b'{"log_verbose_level": 1}').status == 200
        infer(server.http_url, "same", X, id="two")
    (line,) = log.lines(1)
    assert line.endswith("id=two")
