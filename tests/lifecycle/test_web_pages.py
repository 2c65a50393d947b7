"""What a browser on this machine lets any web page do: requests to any route, and names that are made to lead here."""

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

from http_by_hand import Answer, Connection, connect, get, read_answer
from penstock import Request, Response, Server, Tensor, model
from repositories import Repository

FOREIGN = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
"""What a page can send without that the browser asks the server before."""

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


def ask(server: Server, method: str, path: str, headers: Mapping[str, str], body: bytes = b"{}") -> Answer:
    with Connection(server.http_url) as connection:
        return connection.ask(method, path, body, headers)


def posts(server: Server) -> list[str]:
    """The paths of all routes that are posted to and compute nothing, as the server itself lists them."""
    paths = get(server.http_url, "/openapi.json").json()["paths"]
    found = [path for path, methods in paths.items() if "post" in methods and not path.endswith((*INFERENCE, "/score"))]
    assert {"/v2/logging", "/v2/trace/setting", "/v2/repository/index"} <= set(found)
    named = [path.format(model="same", version="1", region="r") for path in found]
    # The protocol's routes for one of several repositories are not listed, as they are not served; nor is a new one.
    return [*named, "/v2/repository/west/index", "/v2/repository/west/models/same/load", "/v2/not/there/yet"]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pages_of_other_origins_change_nothing(server: Server, page: dict[str, str]) -> None:
    for path in posts(server):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            refused = ask(server, method, path, page)
            assert refused.status == 403, (method, path, refused)
            header, value = next(iter(page.items()))
            assert refused.error() == (
                "only inference is open to web pages of other origins: "
                f"the header '{header}' is '{value}', and 'Host' is 'localhost'"
            )


def test_what_a_page_asks_for_is_not_done(server: Server) -> None:
    path = Path(f"/dev/shm/penstock-page-{os.getpid()}")
    path.write_bytes(bytes(64))
    try:
        region = json.dumps({"key": f"/{path.name}", "byte_size": 64}).encode()
        register = "/v2/systemsharedmemory/region/r/register"
        assert ask(server, "POST", register, FOREIGN, region).status == 403
        assert ask(server, "POST", register, {}, region).status == 200
    finally:
        path.unlink()
    for change, body in {
        "/v2/logging": b'{"log_info": true}',
        "/v2/trace/setting": b'{"trace_rate": "7"}',
        "/v2/models/same/trace/setting": b'{"trace_rate": "8"}',
    }.items():
        before = get(server.http_url, change).json()
        assert ask(server, "POST", change, FOREIGN, body).status == 403
        assert get(server.http_url, change).json() == before
        assert ask(server, "POST", change, {}, body).json() != before
    for unregister in ("/v2/systemsharedmemory/region/r/unregister", "/v2/systemsharedmemory/unregister"):
        assert ask(server, "POST", unregister, FOREIGN).status == 403
    assert [one["name"] for one in get(server.http_url, "/v2/systemsharedmemory/status").json()] == ["r"]


@pytest.mark.parametrize("caller", ["curl", "same-origin", "fetch"])
def test_the_servers_own_page_and_other_clients_are_let_through(server: Server, caller: str) -> None:
    headers = {
        "curl": {},
        "same-origin": {"Origin": "http://localhost"},
        "fetch": {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"},
    }[caller]
    for path in posts(server):
        assert ask(server, "POST", path, headers).status != 403, path


def test_a_page_reads(server: Server) -> None:
    for path in ("/v2", "/v2/logging", "/v2/models/same", "/metrics"):
        assert ask(server, "GET", path, FOREIGN, b"").status == 200


def test_inference_is_open_to_pages(server: Server) -> None:
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
        answer = ask(server, "POST", path, FOREIGN, body)
        assert answer.status == 200, (path, answer)
    assert ask(server, "PUT", "/score", FOREIGN).status == 200


def test_no_model_is_loaded_for_a_page(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.put("a")
    with Server(repository=repository.path, model_control="explicit", http="127.0.0.1:0", grpc=None) as server:
        assert ask(server, "POST", "/v2/repository/models/a/load", FOREIGN).status == 403
        assert get(server.http_url, "/v2/models/a/ready").status == 503
        assert ask(server, "POST", "/v2/repository/models/a/load", {}).status == 200
        assert ask(server, "POST", "/v2/repository/models/a/unload", FOREIGN).status == 403
        assert get(server.http_url, "/v2/models/a/ready").status == 200


def called(url: str, host: str, path: str = "/v2/health/live") -> Answer:
    with connect(url) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return read_answer(sock)


REFUSED = (
    "the header 'Host' is '{}', expected localhost, a loopback address, or a name that the server's setting "
    "'allowed_hosts' has"
)


@pytest.mark.parametrize(
    "path", ["/v2", "/metrics", "/docs", "/openapi.json", "/v2/models/same/infer", "/score", "/no"]
)
def test_a_loopback_listener_has_local_names(server: Server, path: str) -> None:
    refused = called(server.http_url, "evil.example:8000", path)
    assert (refused.status, refused.error()) == (403, REFUSED.format("evil.example:8000"))
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000", "a.localhost:80"):
        assert called(server.http_url, host, path).status != 403, host


def test_a_name_is_not_repeated_as_it_is(server: Server) -> None:
    assert called(server.http_url, "a<b>").status == 400
    assert called(server.http_url, "a%2F.b").error() == REFUSED.format("a%2F.b")
    assert called(server.http_url, "x" * 9000).error() == REFUSED.format("x" * 256 + "...")


def test_names_are_allowed() -> None:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "metrics": "127.0.0.1:0"}
    with Server(same, allowed_hosts="proxy.example", **options) as server:
        for url in (server.http_url, f"http://{server.metrics_address}"):
            path = "/metrics"
            assert called(url, "Proxy.example:443", path).status == 200
            assert called(url, "localhost", path).status == 200
            assert called(url, "evil.example", path).error() == REFUSED.format("evil.example")
    with Server(same, allowed_hosts=["other.example", "*"], **options) as server:
        assert called(server.http_url, "evil.example").status == 200


def test_other_listeners_ask_for_a_name_only_if_one_is_set(tmp_path: Path) -> None:
    path = f"unix:{tmp_path}/socket"
    with Server(same, http="0.0.0.0:0", http_extra=path, grpc=None) as server:
        url = server.http_url.replace("0.0.0.0", "127.0.0.1")
        assert called(url, "any.example").status == called(path, "any.example").status == 200
        # A page whose name is made to lead here is of its own origin.
        rebound = {"Host": "any.example", "Origin": "http://any.example"}
        refused = ask_at(url, rebound)
        assert refused.status == 403
        assert refused.error().startswith("only inference is open to web pages by any name: the header 'Host' is 'any")
        assert ask_at(url, {"Host": "10.1.2.3:8000", "Origin": "http://10.1.2.3:8000"}).status == 200
    with Server(same, http="0.0.0.0:0", http_extra=path, grpc=None, allowed_hosts="any.example") as server:
        url = server.http_url.replace("0.0.0.0", "127.0.0.1")
        assert called(url, "any.example").status == called(path, "other.example").status == 200
        assert called(url, "other.example").status == 403
        assert ask_at(url, rebound).status == 200


def ask_at(url: str, headers: Mapping[str, str]) -> Answer:
    with Connection(url) as connection:
        return connection.ask("POST", "/v2/logging", b"{}", headers)


def test_calls_have_any_authority_over_http2_only(server: Server) -> None:
    # No browser speaks HTTP/2 without TLS; proxies and tests set authorities of their own.
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.default_authority", "svc.example")]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    host, port = server.grpc_url.rsplit(":", 1)
    lines = {"Host: evil.example": "7", "Host: localhost\r\nOrigin: http://evil.example": "7", "Host: localhost": None}
    for line, status in lines.items():
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            head = f"POST /inference.GRPCInferenceService/ServerLive HTTP/1.1\r\n{line}\r\n"
            sock.sendall(f"{head}Content-Type: application/grpc\r\nContent-Length: 5\r\n\r\n".encode() + bytes(5))
            assert read_answer(sock).headers.get("grpc-status") == status


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
def test_a_name_that_is_not_text_is_refused_in_json(server: Server, method: str, path: str) -> None:
    (segment,) = (one for one in path.split("/") if "%" in one)
    answer = ask(server, method, path, {})
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    assert answer.error() == f"the path's segment '{segment}' is not UTF-8 once its percent-encoding is decoded"


@pytest.mark.parametrize("path", ["/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/region/r/register"])
def test_bodies_of_settings_are_refused_in_json(server: Server, path: str) -> None:
    large = ask(server, "POST", path, {}, b" " * (256 << 10) + b"{}")
    told = "the request's body has 262146 bytes, at most 262144 are accepted"
    assert (large.status, large.error()) == (413, told)
    with connect(server.http_url) as sock:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        sock.sendall(head.encode() + b"nonsense\r\n")
        answer = read_answer(sock)
    assert answer.status == 400
    assert answer.error().startswith("the request's chunked body is broken: ")
