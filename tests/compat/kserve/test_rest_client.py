"""R6, D17: `InferenceRESTClient` and `RESTConfig`, against Penstock's routes and fake servers."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from observe import free_ports

import penstock
from misbehaving import Misbehaving, refusal
from penstock import Server, Tensor, model
from penstock.compat.kserve.errors import UnsupportedProtocol
from penstock.compat.kserve.inference_client import (
    USE_CLIENT_DEFAULT,
    ConnectError,
    HTTPStatusError,
    InferenceRESTClient,
    InvalidURL,
    ReadError,
    ReadTimeout,
    RESTConfig,
)
from penstock.compat.kserve.protocol.infer_type import InferInput, InferRequest
from waiting import PATIENCE

V1, V2 = RESTConfig(protocol="v1"), RESTConfig(protocol="v2")


class Double:
    def __call__(self, x: Any) -> Any:
        return x * 2

    def explain(self, x: Any) -> Any:
        return x


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    tensors: Any = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
    double = model(name="double", batching=penstock.Batching(max_size=8), **tensors)(Double)
    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        yield server.http_url


def request(binary: bool) -> InferRequest:
    x = InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[1, 2]], np.float32), binary_data=binary)
    return InferRequest("double", [x], request_id="7", parameters={"binary_data_output": binary})


def call(config: RESTConfig, method: str, *arguments: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with InferenceRESTClient(config) as client:
            return await getattr(client, method)(*arguments, **options)

    return asyncio.run(run())


def http_response(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body])


def header_lines(received: bytes) -> list[bytes]:
    return received.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")


def test_r6_v1_infer_explain_and_health(url: str) -> None:
    seen: dict[str, str] = {}
    response = call(V1, "infer", url, {"instances": [[1, 2]]}, model_name="double", response_headers=seen)
    assert response == {"predictions": [[2, 4]]}
    assert seen["content-type"] == "application/json"
    assert call(V1, "explain", url, "double", {"instances": [[1, 2]]}) == {"explanations": [[1, 2]]}
    assert call(V1, "is_server_live", url) is True
    assert call(V1, "is_model_ready", url, "double") is True


@pytest.mark.parametrize("binary", [False, True])
def test_r6_v2_infer(url: str, binary: bool) -> None:
    seen: dict[str, str] = {}
    headers = {"x-own": "1"}
    response = call(V2, "infer", url, request(binary), model_name="double", headers=headers, response_headers=seen)
    assert (response.id, response.model_name) == ("7", "double")
    assert response.outputs[0].as_numpy().tolist() == [[2, 4]]
    assert ("inference-header-content-length" in seen) == binary
    assert headers == {"x-own": "1"}


def test_r6_v2_health(url: str) -> None:
    assert call(V2, "is_server_live", url) is True
    assert call(V2, "is_server_ready", url) is True
    assert call(V2, "is_model_ready", url, "double") is True
    assert call(V2, "is_model_ready", url, "unknown") is False


def test_r6_v2_accepts_a_dict_as_json(url: str) -> None:
    body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": np.array([3.0], np.float32)}]}
    assert call(V2, "infer", url, body, model_name="double").outputs[0].as_numpy().tolist() == [[6]]


def test_r6_graph_url_is_used_unchanged(url: str) -> None:
    graph_url = f"{url}/v1/models/double:predict?a=1"
    assert call(V2, "infer", graph_url, {"instances": [[1]]}, is_graph_endpoint=True) == {"predictions": [[2]]}


def test_r6_error_status_raises_with_the_response(url: str) -> None:
    with pytest.raises(HTTPStatusError) as caught:
        call(V1, "infer", url, {"instances": [[1]]}, model_name="unknown")
    error = caught.value
    assert error.response.status_code == 404
    assert str(error) == f"{error.response.json()['error']}, '404 Not Found' for url '{url}/v1/models/unknown:predict'"
    assert isinstance(error, httpx.HTTPStatusError)
    assert isinstance(error.response, httpx.Response)
    assert error.request.method == "POST"
    with pytest.raises(httpx.HTTPStatusError):
        call(V1, "is_model_ready", url, "unknown")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (http_response(b"no", b"Content-Type: text/plain", status=b"418 I'm a teapot"), ", '418 I'm a Teapot'"),
        (http_response(b'{"detail":1}', b"Content-Type: application/json", status=b"400 X"), "{'detail': 1}, '400 "),
        (
            http_response(b'{"error":"E"}', b"Content-Type: application/json; charset=utf-8", status=b"500 X"),
            "E, '500 ",
        ),
        (http_response(b"{", b"Content-Type: application/json", status=b"500 X"), "{, '500 Internal Server Error'"),
    ],
)
def test_r6_error_texts_contain_body_and_status(reply: bytes, text: str) -> None:
    with Misbehaving(lambda _: reply) as server, pytest.raises(HTTPStatusError) as caught:
        call(V1, "infer", server.url, {"instances": []}, model_name="m")
    assert str(caught.value).startswith(text)


def test_r6_unready_model_is_false() -> None:
    with Misbehaving(lambda _: refusal(503)) as server:
        assert call(V1, "is_model_ready", server.url, "m") is False
        assert call(V2, "is_model_ready", server.url, "m") is False
        with pytest.raises(HTTPStatusError):
            call(V2, "is_server_ready", server.url)


@pytest.mark.parametrize(
    ("config", "method", "arguments"),
    [
        (V2, "explain", ["m", {}]),
        (V1, "is_server_ready", []),
        (RESTConfig(protocol="v3"), "is_server_live", []),
        (RESTConfig(protocol="v3"), "is_model_ready", ["m"]),
        (RESTConfig(protocol="grpc-v2"), "infer", [{}, "m"]),
    ],
)
def test_r6_unsupported_protocols_are_rejected(config: RESTConfig, method: str, arguments: list[Any]) -> None:
    with pytest.raises(UnsupportedProtocol, match=rf"Unsupported protocol {config.protocol}\."):
        call(config, method, "http://127.0.0.1:1", *arguments)


def test_r6_model_name_and_url_scheme_are_required() -> None:
    with pytest.raises(ValueError, match="model_name should not be 'None'"):
        call(V1, "infer", "http://127.0.0.1:1", {})
    for base in ("127.0.0.1:8080", "localhost", "grpc://h:1"):
        with pytest.raises(InvalidURL, match="Base url should have 'http://' or 'https://' protocol") as caught:
            call(V1, "infer", base, {}, "m")
        assert isinstance(caught.value, (httpx.InvalidURL, ValueError))
    with pytest.raises(httpx.InvalidURL, match="Base url should not be a relative url"):
        call(V1, "infer", "http:///path", {}, "m")


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", b"/v1/models/a b%:predict"),
        ("/", b"/v1/models/a b%:predict"),
        ("/team/one", b"/team/one/v1/models/a b%:predict"),
        ("/team/one/", b"/team/one/v1/models/a b%:predict"),
    ],
)
def test_r6_base_url_may_have_a_path(base: str, path: bytes) -> None:
    with Misbehaving(lambda _: http_response(b"{}")) as server:
        call(V1, "infer", httpx.URL(server.url + base), {}, "a b%")
        assert server.received[0].startswith(b"POST " + path.replace(b" ", b"%20") + b" HTTP/1.1\r\n")


def test_r6_forwarded_headers_omit_hop_by_hop_headers() -> None:
    headers = {"Content-Length": "999", "Connection": "close", "Transfer-Encoding": "chunked", "X-Request-Id": "1"}
    with Misbehaving(lambda _: http_response(b"{}")) as server:
        call(V1, "infer", server.url, {"a": 1}, "m", headers=headers)
        sent = header_lines(server.received[0])
    assert {b"x-request-id: 1", b"content-length: 7", b"content-type: application/json"} <= set(sent)
    assert not [line for line in sent if line.startswith((b"connection", b"transfer"))]


def test_r6_bytes_are_sent_unchanged_with_their_content_type() -> None:
    with Misbehaving(lambda _: http_response(b"{}")) as server:
        call(V1, "infer", server.url, b"\x00\x01", "m", headers={"Content-Type": "image/png"})
        assert b"content-type: image/png" in header_lines(server.received[0])
        assert server.received[0].endswith(b"\r\n\r\n\x00\x01")


@pytest.mark.parametrize("source", ["config", "url"])
def test_r6_basic_authentication(source: str) -> None:
    with Misbehaving(lambda _: http_response(b"{}")) as server:
        config = RESTConfig(auth=("u", "p:q")) if source == "config" else RESTConfig()
        base = server.url if source == "config" else server.url.replace("://", "://u:p%3Aq@")
        call(config, "infer", base, {}, "m")
        assert b"authorization: basic dtpwone=" in header_lines(server.received[0])


def test_r6_retries_reach_a_server_that_starts_late() -> None:
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    errors: list[Exception] = []

    async def wait() -> Any:
        async with InferenceRESTClient(RESTConfig(retries=0)) as client_without_retries:
            try:
                await client_without_retries.infer(base, {}, "m")
            except ConnectError as error:
                errors.append(error)
        async with InferenceRESTClient(RESTConfig(retries=30)) as client:
            pending = asyncio.ensure_future(client.infer(base, {}, "m"))
            await asyncio.sleep(0.1)
            with socket.create_server(("127.0.0.1", port)) as listener:
                threading.Thread(target=serve_once, args=[listener]).start()
                return await asyncio.wait_for(pending, PATIENCE)

    def serve_once(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(http_response(b'{"predictions":[]}'))

    assert asyncio.run(wait()) == {"predictions": []}
    assert isinstance(errors[0], httpx.ConnectError)
    assert isinstance(errors[0], penstock.Unavailable)


def test_r6_lost_inference_is_not_retried() -> None:
    with Misbehaving(lambda _: None) as server:
        with pytest.raises(httpx.ReadError) as caught:
            call(V1, "infer", server.url, {}, "m")
        assert isinstance(caught.value, ReadError)
        assert server.requests == 1


@pytest.mark.parametrize("timeout", [0.1, (5, 0.1, 5, 5), httpx.Timeout(5, read=0.1)])
def test_r6_timeouts_accept_all_forms(timeout: Any) -> None:
    partial = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
    with Misbehaving(lambda _: partial) as server:
        for config, options in [(RESTConfig(timeout=timeout), {}), (RESTConfig(), {"timeout": timeout})]:
            with pytest.raises(ReadTimeout) as caught:
                call(config, "infer", server.url, {}, "m", **options)
            assert isinstance(caught.value, httpx.ReadTimeout)
            assert isinstance(caught.value, TimeoutError)


def test_r6_timeout_may_be_none_or_default(url: str) -> None:
    for timeout in (None, USE_CLIENT_DEFAULT, httpx.USE_CLIENT_DEFAULT):
        assert call(V1, "is_server_live", url, timeout=timeout) is True
    with pytest.raises(ValueError, match="timeout is 'soon', expected seconds, None, a tuple of four or httpx's"):
        call(V1, "is_server_live", url, timeout="soon")


def test_r6_httpx_transport_is_used() -> None:
    requests: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"predictions": [json.loads(request.content)["instances"][0]]})

    config = RESTConfig(transport=httpx.MockTransport(reply), auth=httpx.BasicAuth("u", "p"))
    assert call(config, "infer", "http://mock.test", {"instances": [5]}, "m") == {"predictions": [5]}
    assert str(requests[0].url) == "http://mock.test/v1/models/m:predict"
    assert requests[0].headers["authorization"].startswith("Basic ")


def test_r6_http2_and_unverified_tls_use_httpx(url: str) -> None:
    for config in (RESTConfig(http2=True), RESTConfig(verify=False)):
        assert call(config, "infer", url, {"instances": [[1]]}, "double") == {"predictions": [[2]]}


def test_r6_environment_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Misbehaving(lambda _: http_response(b'{"predictions":[1]}')) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "other.test")
        assert call(V1, "infer", "http://model.test", {}, "m") == {"predictions": [1]}
        assert proxy.received[0].startswith(b"POST http://model.test/v1/models/m:predict HTTP/1.1")


def test_r6_closed_client_rejects_calls(url: str) -> None:
    async def call_after_close() -> None:
        client = InferenceRESTClient()
        await client.close()
        await client.is_server_live(url)

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(call_after_close())


WITHOUT = """
import asyncio, sys
from penstock.compat.kserve import InferenceGRPCClient, InferenceRESTClient, RESTConfig
from penstock.compat.kserve.inference_client import ConnectError, HTTPStatusError, RpcError, StatusCode

async def main(url):
    async with InferenceRESTClient() as client:
        try:
            await client.infer(url, {"instances": [[1]]}, "unknown")
        except HTTPStatusError as error:
            assert error.response.status_code == 404 and error.response.json()["error"], error
        try:
            await client.infer("http://127.0.0.1:1", {}, "m")
        except ConnectError as error:
            assert error.request.url == "http://127.0.0.1:1/v1/models/m:predict"
    async with InferenceGRPCClient("127.0.0.1:1", retries=0) as client:
        try:
            await client.is_server_live()
        except RpcError as error:
            assert error.code() is StatusCode.UNAVAILABLE
    for name in ("httpx", "h2"):
        sys.modules[name] = None
        try:
            InferenceRESTClient(RESTConfig(http2=True))
        except ImportError as error:
            assert str(error) == "RESTConfig's http2 needs the package httpx: pip install 'penstock[kserve]'", error
        else:
            raise AssertionError

asyncio.run(main(sys.argv[1]))
loaded = [name for name in ("httpx", "grpc", "google.protobuf") if sys.modules.get(name)]
assert not loaded, loaded
"""


def test_r6_neither_httpx_nor_grpc_is_needed(url: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT, url], check=False, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
