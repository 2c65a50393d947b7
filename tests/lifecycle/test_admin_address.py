"""The admin address: routes that only it serves, its protection, and what the banner says of exposed addresses."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from models.protocol import add
from penstock import ConfigError, Server
from penstock._serve import banner

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| `(GET|POST|DELETE) (/[^`]*)` \| ([\w-]+) \|", (ROOT / "docs" / "protocol.md").read_text(), re.MULTILINE
)
"""Method, path and category of each route. A house test compares the table with the server's."""

HIDDEN = {"model-repository", "logging", "trace", "statistics", "metrics", "debug"}
NAMES = {"model": "add", "version": "1", "region": "r", "repository": "p", "stream": "0" * 32}
CALLS = {
    "ModelStatistics": True,
    "RepositoryIndex": True,
    "RepositoryModelLoad": True,
    "RepositoryModelUnload": True,
    "TraceSetting": True,
    "LogSettings": True,
    "ServerLive": False,
    "ServerMetadata": False,
    "ModelMetadata": False,
    "ModelConfig": False,
    "SystemSharedMemoryStatus": False,
}
"""Calls, and whether only the admin address serves them."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    options: dict[str, Any] = {"batching_debug": "change", "shared_memory": "on", "model_control": "none"}
    with Server(add, http="127.0.0.1:0", grpc="127.0.0.1:0", admin="127.0.0.1:0", **options) as server:
        yield server


def status(url: str, method: str, path: str) -> int:
    with httpx.stream(method, url + path, content=b"{}" if method == "POST" else None) as answered:
        return answered.status_code


@pytest.mark.parametrize(("method", "path", "category"), ROWS)
def test_control_is_served_at_the_admin_address_only(server: Server, method: str, path: str, category: str) -> None:
    path = re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], path)
    is_hidden = category in HIDDEN or path == "/live"
    if is_hidden:
        assert status(server.http_url, method, path) == 404
        unknown = httpx.request(method, server.http_url + path, content=b"{}" if method == "POST" else None)
        assert "Not Found" in unknown.json()["error"]
    # An unknown region is 404 too: what matters is that both addresses answer alike.
    elif path not in ("/live/events",):
        assert status(server.http_url, method, path) == status(server.admin_url, method, path)
    if is_hidden:
        assert httpx_body(server.admin_url, method, path) != {"error": "Not Found"}


def httpx_body(url: str, method: str, path: str) -> Any:
    with httpx.stream(method, url + path, content=b"{}" if method == "POST" else None) as answered:
        if answered.headers["content-type"] != "application/json":
            return None
        answered.read()
        return answered.json()


@pytest.mark.parametrize("name", CALLS)
def test_control_calls_are_unimplemented_elsewhere(server: Server, name: str) -> None:
    methods = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    message = getattr(pb, methods[name].input_type.name)()
    codes = []
    for target in (server.grpc_url, server.admin_url.removeprefix("http://")):
        with grpc.insecure_channel(target) as channel:
            try:
                getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), name)(message, timeout=20)
                codes.append("OK")
            except grpc.RpcError as error:
                codes.append(error.code().name)
    assert (codes[0] == "UNIMPLEMENTED") == CALLS[name]
    assert codes[1] != "UNIMPLEMENTED"


def test_documents_leave_out_hidden_routes(server: Server) -> None:
    shown, whole = (httpx.get(f"{url}/openapi.json").json()["paths"] for url in (server.http_url, server.admin_url))
    assert "/metrics" not in shown
    assert "/metrics" in whole
    assert "/v2/models/add/infer" in shown
    nearest = httpx.get(f"{server.http_url}/metric").json()["error"]
    assert "/metrics" not in nearest


def test_admin_socket_is_for_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    with Server(add, http="127.0.0.1:0", grpc="off", admin=f"unix:{path}") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.get("/metrics").status_code == 200
        assert httpx.get(f"{server.http_url}/metrics").status_code == 404
    assert not path.exists()


def test_list_of_categories_may_be_another() -> None:
    with Server(add, http="127.0.0.1:0", grpc="off", admin="127.0.0.1:0", admin_only="metrics,shared-memory") as server:
        statuses = [status(server.http_url, "GET", path) for path in ("/metrics", "/v2/models/stats")]
        assert statuses == [404, 200]
        assert status(server.http_url, "GET", "/v2/systemsharedmemory/status") == 404


def test_metrics_address_answers_probes() -> None:
    with Server(add, http="127.0.0.1:0", grpc="off", listeners="metrics=127.0.0.1:0") as server:
        url = f"http://{server.metrics_address}"
        statuses = [status(url, "GET", path) for path in ("/metrics", "/v2/health/live", "/v2/health/ready", "/v2")]
        assert statuses == [200, 200, 200, 404]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"admin": "0.0.0.0:9000"},
            "admin: 0.0.0.0:9000 can be reached from other machines, and nothing asks for a key: "
            "set keys_file, tls_client=required, or admin_open=true",
        ),
        ({"admin": "plain:10.0.0.1:9000"}, "admin: 10.0.0.1:9000 can be reached"),
        ({"admin_open": True}, "admin_open: has no meaning unless admin is an address"),
        ({"admin": "127.0.0.1:9000", "admin_only": "inference"}, "admin_only: 'inference' is what other addresses are"),
        (
            {"admin": "127.0.0.1:9000", "admin_only": "control"},
            "admin_only: unknown category 'control', expected health",
        ),
        ({"admin": "127.0.0.1:8000"}, "admin: 127.0.0.1:8000 is the address of another listener"),
        ({"admin": "nowhere"}, "admin: 'nowhere' is not HOST:PORT"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Server(add, **options)


@pytest.mark.parametrize(
    "guard", [{"admin_open": True}, {"api_key": "k" * 24}, {"keys_file": "/nowhere/keys.toml"}], ids=str
)
def test_guarded_address_may_be_reached_from_other_machines(guard: dict[str, Any]) -> None:
    Server(add, admin="0.0.0.0:0", **guard)


def test_banner_names_exposed_addresses() -> None:
    with Server(add, http="0.0.0.0:0", grpc="same", admin="127.0.0.1:0") as server:
        shown = banner.describe(server, [add])
        port = server.http_address.rpartition(":")[2] if server.http_address else ""
        assert f"exposed  0.0.0.0:{port} http, grpc (no TLS, no key)" in shown
        assert f"admin  {server.admin_url}" in shown
    with Server(add, http="127.0.0.1:0", grpc="off", admin="0.0.0.0:0", api_key="k" * 24) as server:
        shown = banner.describe(server, [add])
        assert re.search(r"^exposed  0\.0\.0\.0:\d+ admin \(no TLS, keys\)$", shown, re.MULTILINE)
