"""Keys on every route and call: none, an unknown one, one with the scope only, and one with all other scopes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from models.protocol import add
from penstock import Server, model
from penstock import openai as routes
from penstock._config.access import CATEGORIES

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| `(GET|POST|DELETE) (/[^`]*)` \| ([\w-]+) \|", (ROOT / "docs" / "protocol.md").read_text(), re.MULTILINE
)
"""Method, path and category of each route. A house test compares the table with the server's."""

CALLS = {
    "ServerLive": "health",
    "ServerReady": "health",
    "ModelReady": "health",
    "ServerMetadata": "metadata",
    "ModelMetadata": "metadata",
    "ModelInfer": "inference",
    "ModelStreamInfer": "inference",
    "ModelConfig": "model-config",
    "ModelStatistics": "statistics",
    "RepositoryIndex": "model-repository",
    "RepositoryModelLoad": "model-repository",
    "RepositoryModelUnload": "model-repository",
    "SystemSharedMemoryStatus": "shared-memory",
    "SystemSharedMemoryRegister": "shared-memory",
    "SystemSharedMemoryUnregister": "shared-memory",
    "CudaSharedMemoryStatus": "shared-memory",
    "CudaSharedMemoryRegister": "shared-memory",
    "CudaSharedMemoryUnregister": "shared-memory",
    "TraceSetting": "trace",
    "LogSettings": "logging",
}
"""Category of each call of the inference service."""

OTHERS = [
    ("POST", "/oai/completions", "inference"),
    ("GET", "/oai/models", "inference"),
    ("GET", "/ping", "health"),
    ("POST", "/invocations", "inference"),
    ("GET", "/vertex/health", "health"),
    ("POST", "/vertex/predict", "inference"),
    ("GET", "/nowhere", "metadata"),
    ("POST", "/nowhere", "inference"),
    ("DELETE", "/v2/models/add", "metadata"),
]
"""Routes of models and of hosting platforms, and paths without a route."""


def only(category: str) -> str:
    return f"only-{category}-{'k' * 30}"


def all_but(category: str) -> str:
    return f"not-{category}-{'k' * 30}"


def entry(name: str, key: str, scopes: list[str]) -> str:
    return f"[[key]]\nname = '{name}'\nsha256 = '{hashlib.sha256(key.encode()).hexdigest()}'\nscopes = {scopes}\n"


@model
def complete(prompt: str) -> Iterator[str]:
    yield prompt


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    entries = [entry(f"only-{one}", only(one), [one]) for one in CATEGORIES]
    entries += [
        entry(f"not-{one}", all_but(one), [other for other in CATEGORIES if other != one]) for one in CATEGORIES
    ]
    path.write_text("\n".join(entries))
    path.chmod(0o600)
    models = [add, complete, routes.routes(routes.Completions(complete), prefix="/oai")]
    options: dict[str, Any] = {
        "sagemaker": True,
        "vertex": True,
        "vertex_health_route": "/vertex/health",
        "vertex_predict_route": "/vertex/predict",
        "hosted_model": "add",
        "batching_debug": "change",
        "slow_request": "1h",
        "shared_memory": "on",
    }
    with Server(*models, keys_file=str(path), http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        yield server


def status(server: Server, method: str, path: str, key: str | None) -> int:
    headers = {"x-api-key": key} if key else {}
    url = server.http_url + path
    with httpx.stream(method, url, headers=headers, content=b"{}" if method == "POST" else None) as answered:
        return answered.status_code


def example(path: str) -> str:
    names = {"model": "add", "version": "1", "region": "r", "repository": "p", "stream": "0" * 32}
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], path)


@pytest.mark.parametrize(("method", "path", "category"), [*ROWS, *OTHERS])
def test_each_route_needs_its_scope(server: Server, method: str, path: str, category: str) -> None:
    path = example(path)
    if category == "none":
        assert status(server, method, path, None) == 200
        return
    assert status(server, method, path, None) == (
        401 if category != "health" else status(server, method, path, only("health"))
    )
    assert status(server, method, path, "unknown") == 401
    assert status(server, method, path, all_but(category)) == 403
    assert status(server, method, path, only(category)) not in (401, 403)


def test_tables_are_complete() -> None:
    assert len(ROWS) > 60
    assert {category for *_, category in ROWS} == {*CATEGORIES, "none"}
    methods = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    # Penstock's clients are older than this call, which the server does not have.
    assert {one.name for one in methods} - {"SystemSharedMemoryUnregisterAll"} == set(CALLS)


def code(call: Any, key: str | None) -> str:
    metadata = (("x-api-key", key),) if key else ()
    try:
        answered = call(metadata)
        # A stream has its status at its end.
        if isinstance(answered, grpc.Call) and hasattr(answered, "__next__"):
            list(answered)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def calls(channel: grpc.Channel) -> dict[str, tuple[Any, str]]:
    """Each call by its name, with its category."""
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    methods = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    found: dict[str, tuple[Any, str]] = {}
    for name, category in CALLS.items():
        message = getattr(pb, methods[name].input_type.name)()
        streams = methods[name].client_streaming

        def call(metadata: Any, name: str = name, message: Any = message, streams: bool = streams) -> Any:
            sent = iter([message]) if streams else message
            return getattr(stub, name)(sent, metadata=metadata, timeout=20)

        found[name] = (call, category)
    health = health_pb2_grpc.HealthStub(channel)
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    check, listing = health_pb2.HealthCheckRequest(), reflection_pb2.ServerReflectionRequest(list_services="")
    found["Check"] = (lambda metadata: health.Check(check, metadata=metadata, timeout=20), "health")
    found["reflection"] = (
        lambda metadata: reflection.ServerReflectionInfo(iter([listing]), metadata=metadata, timeout=20),
        "metadata",
    )
    return found


@pytest.mark.parametrize("name", [*CALLS, "Check", "reflection"])
def test_each_call_needs_its_scope(server: Server, name: str) -> None:
    with grpc.insecure_channel(server.grpc_url) as channel:
        call, category = calls(channel)[name]
        if category == "health":
            assert code(call, None) == code(call, only("health"))
        else:
            assert code(call, None) == "UNAUTHENTICATED"
        assert code(call, "unknown") == "UNAUTHENTICATED"
        assert code(call, all_but(category)) == "PERMISSION_DENIED"
        assert code(call, only(category)) not in ("UNAUTHENTICATED", "PERMISSION_DENIED")
