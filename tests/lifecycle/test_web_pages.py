"""Protection from web pages in a local browser: cross-origin requests, and DNS rebinding."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import Connection, HttpResponse, connect, get, read_response
from penstock import Request, Response, Server, Tensor, model
from repositories import Repository

FOREIGN = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
"""Headers that a page can send without a CORS preflight."""

PAGES: list[dict[str, str]] = [
    FOREIGN,
    {"Origin": "null", "Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "same-site", "Content-Type": "text/plain"},
]

INFERENCE = ("/infer", "/infer_stream", "/generate", "/generate_stream", ":predict", ":explain")


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@model(name="own", routes=["POST /score", "PUT /score"])
def own(request: Request) -> Response:
    return Response(body=b"scored")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(
        same, own, http="127.0.0.1:0", grpc="127.0.0.1:0", shared_memory="local", batching_debug="change"
    ) as server:
        yield server


def send_request(
    server: Server, method: str, path: str, headers: Mapping[str, str], body: bytes = b"{}"
) -> HttpResponse:
    with Connection(server.http_url) as connection:
        return connection.send_request(method, path, body, headers)


def posts(server: Server) -> list[str]:
    """The paths of all POST routes that do not compute, as the server lists them."""
    paths = get(server.http_url, "/openapi.json").json()["paths"]
    post_paths = [
        path
        for path, methods in paths.items()
        if "post" in methods and not path.endswith((*INFERENCE, "/score")) and not path.startswith("/models/")
    ]
    assert {"/v2/logging", "/v2/trace/setting", "/v2/repository/index"} <= set(post_paths)
    named = [path.format(model="same", version="1", region="r") for path in post_paths]
    # Routes of named repositories are not listed, because they are not served; nor are future routes.
    return [*named, "/v2/repository/west/index", "/v2/repository/west/models/same/load", "/v2/not/there/yet"]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_cross_origin_requests_change_nothing(server: Server, page: dict[str, str]) -> None:
    for path in posts(server):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            refused = send_request(server, method, path, page)
            assert refused.status == 403, (method, path, refused)
            header, value = next(iter(page.items()))
            assert refused.error() == (
                "only inference is open to web pages of other origins: "
                f"the header '{header}' is '{value}', and 'Host' is 'localhost'"
            )


def test_cross_origin_control_requests_have_no_effect(server: Server) -> None:
    path = Path(f"/dev/shm/penstock-page-{os.getpid()}")
    path.write_bytes(bytes(64))
    try:
        region = json.dumps({"key": f"/{path.name}", "byte_size": 64}).encode()
        register = "/v2/systemsharedmemory/region/r/register"
        assert send_request(server, "POST", register, FOREIGN, region).status == 403
        assert send_request(server, "POST", register, {}, region).status == 200
    finally:
        path.unlink()
    for change, body in {
        "/v2/logging": b'{"log_info": true}',
        "/v2/trace/setting": b'{"trace_rate": "7"}',
        "/v2/models/same/trace/setting": b'{"trace_rate": "8"}',
    }.items():
        before = get(server.http_url, change).json()
        assert send_request(server, "POST", change, FOREIGN, body).status == 403
        assert get(server.http_url, change).json() == before
        assert send_request(server, "POST", change, {}, body).json() != before
    for unregister in ("/v2/systemsharedmemory/region/r/unregister", "/v2/systemsharedmemory/unregister"):
        assert send_request(server, "POST", unregister, FOREIGN).status == 403
    assert [one["name"] for one in get(server.http_url, "/v2/systemsharedmemory/status").json()] == ["r"]


@pytest.mark.parametrize("client", ["curl", "same-origin", "fetch"])
def test_same_origin_and_non_browser_clients_are_allowed(server: Server, client: str) -> None:
    headers = {
        "curl": {},
        "same-origin": {"Origin": "http://localhost"},
        "fetch": {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"},
    }[client]
    for path in posts(server):
        assert send_request(server, "POST", path, headers).status != 403, path


def test_cross_origin_reads_are_allowed(server: Server) -> None:
    for path in ("/v2", "/v2/logging", "/v2/models/same", "/metrics"):
        assert send_request(server, "GET", path, FOREIGN, b"").status == 200


def test_cross_origin_inference_is_allowed(server: Server) -> None:
    infer = b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}'
    for path, body in {
        "/v2/models/same/infer": infer,
        "/v2/models/same/versions/1/infer": infer,
        "/v2/models/same/generate": b'{"x": [1]}',
        "/v2/models/same/generate_stream": b'{"x": [1]}',
        "/v2/models/same/infer_stream": infer,
        "/v1/models/same:predict": b'{"inputs": [1]}',
        "/score": b"",
    }.items():
        response = send_request(server, "POST", path, FOREIGN, body)
        assert response.status == 200, (path, response)
    assert send_request(server, "PUT", "/score", FOREIGN).status == 200


def test_cross_origin_request_loads_no_model(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.put("a")
    with Server(repository=repository.path, model_control="explicit", http="127.0.0.1:0", grpc=None) as server:
        assert send_request(server, "POST", "/v2/repository/models/a/load", FOREIGN).status == 403
        assert get(server.http_url, "/v2/models/a/ready").status == 503
        assert send_request(server, "POST", "/v2/repository/models/a/load", {}).status == 200
        assert send_request(server, "POST", "/v2/repository/models/a/unload", FOREIGN).status == 403
        assert get(server.http_url, "/v2/models/a/ready").status == 200


def request_with_host(url: str, host: str, path: str = "/v2/health/live") -> HttpResponse:
    with connect(url) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return read_response(sock)


REFUSED = (
    "the header 'Host' is '{}', expected localhost, a loopback address, or a name that the server's setting "
    "'allowed_hosts' has"
)


@pytest.mark.parametrize(
    "path", ["/v2", "/metrics", "/docs", "/openapi.json", "/v2/models/same/infer", "/score", "/no"]
)
def test_loopback_listener_accepts_only_local_host_names(server: Server, path: str) -> None:
    refused = request_with_host(server.http_url, "evil.example:8000", path)
    assert (refused.status, refused.error()) == (403, REFUSED.format("evil.example:8000"))
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000", "a.localhost:80"):
        assert request_with_host(server.http_url, host, path).status != 403, host


def test_refused_host_name_is_escaped_in_the_error(server: Server) -> None:
    assert request_with_host(server.http_url, "a<b>").status == 400
    assert request_with_host(server.http_url, "a%2F.b").error() == REFUSED.format("a%2F.b")
    assert request_with_host(server.http_url, "x" * 9000).error() == REFUSED.format("x" * 256 + "...")


def test_allowed_hosts_are_accepted() -> None:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "listeners": "metrics=127.0.0.1:0"}
    with Server(same, allowed_hosts="proxy.example", **options) as server:
        for url in (server.http_url, f"http://{server.metrics_address}"):
            path = "/metrics"
            assert request_with_host(url, "Proxy.example:443", path).status == 200
            assert request_with_host(url, "localhost", path).status == 200
            assert request_with_host(url, "evil.example", path).error() == REFUSED.format("evil.example")
    with Server(same, allowed_hosts=["other.example", "*"], **options) as server:
        assert request_with_host(server.http_url, "evil.example").status == 200


def test_other_listeners_check_hosts_only_if_configured(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/socket"
    with Server(same, http="0.0.0.0:0", listeners=f"http={path}", grpc=None) as server:
        url = server.http_url.replace("0.0.0.0", "127.0.0.1")
        assert request_with_host(url, "any.example").status == request_with_host(path, "any.example").status == 200
        # A rebound page is same-origin.
        rebound = {"Host": "any.example", "Origin": "http://any.example"}
        refused = get_with_headers(url, rebound)
        assert refused.status == 403
        assert refused.error().startswith("only inference is open to web pages by any name: the header 'Host' is 'any")
        assert get_with_headers(url, {"Host": "10.1.2.3:8000", "Origin": "http://10.1.2.3:8000"}).status == 200
    with Server(same, http="0.0.0.0:0", listeners=f"http={path}", grpc=None, allowed_hosts="any.example") as server:
        url = server.http_url.replace("0.0.0.0", "127.0.0.1")
        assert request_with_host(url, "any.example").status == request_with_host(path, "other.example").status == 200
        assert request_with_host(url, "other.example").status == 403
        assert get_with_headers(url, rebound).status == 200


def get_with_headers(url: str, headers: Mapping[str, str]) -> HttpResponse:
    with Connection(url) as connection:
        return connection.send_request("POST", "/v2/logging", b"{}", headers)


def test_http2_calls_may_have_any_authority(server: Server) -> None:
    # Browsers do not speak HTTP/2 without TLS; proxies and tests set arbitrary authorities.
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.default_authority", "svc.example")]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    host, port = server.grpc_url.rsplit(":", 1)
    lines = {"Host: evil.example": "7", "Host: localhost\r\nOrigin: http://evil.example": "7", "Host: localhost": None}
    for line, status in lines.items():
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            head = f"POST /inference.GRPCInferenceService/ServerLive HTTP/1.1\r\n{line}\r\n"
            sock.sendall(f"{head}Content-Type: application/grpc\r\nContent-Length: 5\r\n\r\n".encode() + bytes(5))
            assert read_response(sock).headers.get("grpc-status") == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/models/%ff"),
        ("GET", "/v2/models/a%C3/ready"),
        ("GET", "/v2/models/same/versions/%ff/config"),
        ("GET", "/v2/models/%ff/stats"),
        ("GET", "/v1/models/%ff"),
        ("GET", "/v2/models/%ff/docs"),
        ("GET", "/v2/systemsharedmemory/region/%ff/status"),
        ("GET", "/nothing/%ff"),
        ("POST", "/v2/models/%ff/infer"),
        ("POST", "/v2/models/%ff/generate"),
        ("POST", "/v1/models/%ff:predict"),
        ("POST", "/v2/models/%ff/batching"),
        ("POST", "/v2/models/%ff/trace/setting"),
        ("POST", "/v2/repository/models/%ff/load"),
        ("POST", "/v2/systemsharedmemory/region/%ff/register"),
    ],
)
def test_non_utf8_model_name_is_refused_with_a_json_error(server: Server, method: str, path: str) -> None:
    (segment,) = (one for one in path.split("/") if "%" in one)
    response = send_request(server, method, path, {})
    assert (response.status, response.headers["content-type"]) == (400, "application/json")
    assert response.error() == f"the path's segment '{segment}' is not UTF-8 once its percent-encoding is decoded"


@pytest.mark.parametrize("path", ["/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/region/r/register"])
def test_settings_body_errors_are_json(server: Server, path: str) -> None:
    large = send_request(server, "POST", path, {}, b" " * (256 << 10) + b"{}")
    message = "the request's body has 262146 bytes, at most 262144 are accepted"
    assert (large.status, large.error()) == (413, message)
    with connect(server.http_url) as sock:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        sock.sendall(head.encode() + b"nonsense\r\n")
        response = read_response(sock)
    assert response.status == 400
    assert response.error().startswith("the request's chunked body is broken: ")
