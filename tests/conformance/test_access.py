"""Restricted access: the secret of each category, over both protocols (the protocol's 4.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

from models.protocol import add
from penstock import Server
from penstock.testing import Client

from .content import add as add_call
from .protocols import GrpcProtocol, HttpProtocol
from .transports import Rest

SECRET, KEY = "hush-7f3a", "key-91c2"
RULES = f"inference,statistics,model-config:admin={SECRET};inference:admin=second;health:probe={SECRET}"


@pytest.fixture(scope="module", params=["two ports", "one port"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    ports = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0" if request.param == "two ports" else "same"}
    with Server(add, restricted_access=RULES, api_key=KEY, **ports) as server:  # type: ignore[arg-type]
        yield server


BEARER = {"Authorization": f"Bearer {KEY}"}
BEARER_METADATA = ("authorization", f"Bearer {KEY}")


def rest(server: Server, method: str, path: str, **headers: str) -> int:
    reply = Rest(server.http_url).request(method, path, headers=headers)
    if reply.status in (401, 403):
        message = reply.refusal(reply.status)
        assert ("restricted, expecting header" if reply.status == 403 else "key is") in message
        assert SECRET not in message
        assert KEY not in message
    return reply.status


RESTRICTED = [
    ("GET", "/v2/models/stats", "admin"),
    ("GET", "/v2/models/add/stats", "admin"),
    ("GET", "/v2/models/add/versions/1/stats", "admin"),
    ("GET", "/metrics", "admin"),
    ("GET", "/v2/models/add/config", "admin"),
    ("GET", "/v2/health/ready", "probe"),
    ("GET", "/v2/health/live", "probe"),
    ("GET", "/v2/models/add/ready", "probe"),
]


@pytest.mark.parametrize(("method", "path", "header"), RESTRICTED)
def test_rest_requires_the_categorys_header(server: Server, method: str, path: str, header: str) -> None:
    assert rest(server, method, path) == 403
    for wrong in ("", "x", SECRET[:-1], f"{SECRET}x", SECRET.upper()):
        assert rest(server, method, path, **BEARER, **{header: wrong}) == 403, wrong
    # Neither another category's header nor the API key alone opens it.
    assert rest(server, method, path, **BEARER) == 403
    assert rest(server, method, path, **{header.title(): SECRET}) == (200 if header == "probe" else 401)
    assert rest(server, method, path, **BEARER, **{header.title(): SECRET}) == 200


@pytest.mark.parametrize("path", ["/v2", "/v2/models", "/v2/models/add", "/nowhere"])
def test_api_key_opens_unrestricted_routes(server: Server, path: str) -> None:
    assert rest(server, "GET", path) == 401
    for wrong in (KEY, "Bearer", "Bearer ", f"Bearer {KEY}x", f"Basic {KEY}"):
        assert rest(server, "GET", path, Authorization=wrong) == 401, wrong
    for valid in (f"Bearer {KEY}", f"bearer {KEY}"):
        assert rest(server, "GET", path, Authorization=valid) == (404 if path == "/nowhere" else 200)


def test_docs_page_is_open_but_its_documents_are_not(server: Server) -> None:
    for path in ("/docs", "/v2/docs"):
        assert rest(server, "GET", path) == 200
        assert rest(server, "HEAD", path) == 200
        assert rest(server, "POST", path) == 403
        assert rest(server, "POST", path, admin=SECRET) == 401
    for path in ("/openapi.json", "/v2/docs/dataplane.json", "/v2/models/add/docs", "/docs/", "/docs?x=1/../../v2"):
        assert rest(server, "GET", path) == (200 if "?" in path else 401), path


def test_rest_inference_accepts_either_secret(server: Server) -> None:
    protocol = HttpProtocol("rest", Rest(server.http_url), binary=True)
    body, headers = protocol.encode(add_call())
    for secret, status in ((None, 403), ("third", 403), (SECRET, 200), ("second", 200)):
        sent = {**headers, **BEARER} if secret is None else {**headers, **BEARER, "admin": secret}
        reply = protocol.transport.request("POST", "/v2/models/add/infer", body, sent)
        assert reply.status == status
    assert "'admin'" in protocol.transport.request("POST", "/v2/models/add/infer", body, headers).refusal(403)


def calls(channel: grpc.Channel) -> dict[str, tuple[Callable[..., Any], Any, str, str]]:
    """Call, request and required metadata, by name."""
    stub, health = service_pb2_grpc.GRPCInferenceServiceStub(channel), health_pb2_grpc.HealthStub(channel)
    message = GrpcProtocol.message(GrpcProtocol("grpc", "localhost:1", typed=False), add_call())
    admin, probe = ("triton-grpc-protocol-admin", SECRET), ("triton-grpc-protocol-probe", SECRET)
    return {
        "ModelInfer": (stub.ModelInfer, message, *admin),
        "ModelConfig": (stub.ModelConfig, pb.ModelConfigRequest(name="add"), *admin),
        "ModelStatistics": (stub.ModelStatistics, pb.ModelStatisticsRequest(), *admin),
        "ServerLive": (stub.ServerLive, pb.ServerLiveRequest(), *probe),
        "ModelReady": (stub.ModelReady, pb.ModelReadyRequest(name="add"), *probe),
        "Check": (health.Check, health_pb2.HealthCheckRequest(), *probe),
    }


@pytest.mark.parametrize("name", ["ModelInfer", "ModelConfig", "ModelStatistics", "ServerLive", "ModelReady", "Check"])
def test_grpc_requires_the_categorys_metadata(server: Server, name: str) -> None:
    with grpc.insecure_channel(server.grpc_url) as channel:
        call, message, key, secret = calls(channel)[name]
        plain = key.removeprefix("triton-grpc-protocol-")
        for metadata in ((), ((key, "x"),), ((key, f"{secret}x"),), ((plain, "x"),)):
            with pytest.raises(grpc.RpcError) as refusal:
                call(message, metadata=(BEARER_METADATA, *metadata), timeout=20)
            assert refusal.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert f"'{key}'" in refusal.value.details()
            assert secret not in refusal.value.details()
        assert call(message, metadata=(BEARER_METADATA, (key, secret)), timeout=20) is not None


def test_grpc_requires_the_key() -> None:
    with (
        Server(add, api_key=KEY, http="off", grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call, message = stub.ServerMetadata, pb.ServerMetadataRequest()
        for metadata, text in (
            ((), "a key is needed"),
            ((("authorization", "Bearer x"),), "this key is not known"),
            ((("x-api-key", "x"),), "this key is not known"),
        ):
            with pytest.raises(grpc.RpcError) as refusal:
                call(message, metadata=metadata, timeout=20)
            assert refusal.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert text in refusal.value.details()
        for metadata in (BEARER_METADATA, ("x-api-key", KEY)):
            assert call(message, metadata=(metadata,), timeout=20).name == "penstock"


def test_tritonclient_is_admitted_with_the_headers(server: Server) -> None:
    admin = {"admin": SECRET, **BEARER}
    with thttp.InferenceServerClient(server.http_url.removeprefix("http://")) as http:
        assert http.get_model_config("add", headers=admin)["name"] == "add"
        with pytest.raises(InferenceServerException, match="restricted") as refusal:
            http.get_model_config("add", headers=BEARER)
        assert refusal.value.status() == "403"
    with tgrpc.InferenceServerClient(server.grpc_url) as client:
        metadata = {"triton-grpc-protocol-admin": SECRET, "authorization": f"Bearer {KEY}"}
        assert client.get_model_config("add", headers=metadata).config.name == "add"
        with pytest.raises(InferenceServerException, match="restricted") as refusal:
            client.get_model_config("add", headers={"authorization": f"Bearer {KEY}"})
        assert refusal.value.status() == "StatusCode.PERMISSION_DENIED"


def test_hosting_routes_are_guarded_by_their_category() -> None:
    body, _ = HttpProtocol("rest", Rest("http://localhost:1"), binary=False).encode(add_call())
    with Client(add, api_key=KEY, sagemaker=True) as client:
        assert client.get("/ping").status == 200
        assert client.post("/invocations", body).status == 401
        assert client.post("/invocations", body, headers={"Authorization": f"Bearer {KEY}"}).status == 200


def test_api_key_leaves_probes_open_and_applies_in_process() -> None:
    with Client(add, api_key=KEY) as client:
        assert client.get("/v2/health/ready").status == 200
        assert client.get("/v2/models/add").status == 401
        assert client.get("/v2/models/add", headers={"Authorization": f"Bearer {KEY}"}).status == 200
