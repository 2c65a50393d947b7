"""The model repository extension: index, load and unload over REST and gRPC (cases F1 to F6 and G11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

from models.protocol import add, ver_1, ver_2
from penstock import Server
from penstock.testing import Client
from repositories import MODEL, Repository, RepositoryClient
from waiting import until

from .test_tritonclient import AnyClient, every_client
from .transports import InProcess, Rest, Transport

NAMED = "repository 'west': repositories are not named, leave its name out"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = Repository(tmp_path_factory.mktemp("repository") / "models")
    repository.put("times", "1", 2)
    repository.put("times", "2", 3)
    repository.put("never", "1", 5)
    return repository


@pytest.fixture(scope="module")
def explicit(repository: Repository) -> Iterator[Server]:
    options: Any = {"repository": repository.path, "model_control": "explicit", "load_models": "times"}
    with Server(add, ver_1, ver_2, http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        yield server


@pytest.fixture(params=["rest", "in-process"])
def transport(request: pytest.FixtureRequest, explicit: Server, repository: Repository) -> Iterator[Transport]:
    if request.param == "rest":
        yield Rest(explicit.http_url)
        return
    options: Any = {"repository": repository.path, "model_control": "explicit", "load_models": "times"}
    with Client(add, ver_1, ver_2, **options) as client:
        yield InProcess(client)


@pytest.fixture
def stub(explicit: Server) -> Iterator[Any]:
    with grpc.insecure_channel(explicit.grpc_url) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def post(transport: Transport, path: str, body: Any = b"") -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = transport.request("POST", f"/v2/repository/{path}", raw)
    return reply.status, reply.json()


def refused(transport: Transport, status: int, path: str, body: Any = b"") -> str:
    got, document = post(transport, path, body)
    assert got == status, document
    assert list(document) == ["error"]
    return document["error"]


READY = [
    {"name": "add", "version": "1", "state": "READY"},
    {"name": "times", "version": "2", "state": "READY"},
    {"name": "ver", "version": "1", "state": "READY"},
    {"name": "ver", "version": "2", "state": "READY"},
]


def test_f1_index(transport: Transport) -> None:
    # Models never loaded have only a name; states are plain words (trap T58a).
    everything = [READY[0], {"name": "never"}, *READY[1:]]
    for body in (b"", b"{}", b'{"ready": false}', b'{"unknown": 1}'):
        assert post(transport, "index", body) == (200, everything)
    assert post(transport, "index", {"ready": True}) == (200, READY)
    assert refused(transport, 400, "index", {"ready": 1}) == "'ready' is not true or false"
    assert "not JSON" in refused(transport, 400, "index", b"{")


@pytest.mark.trap("T58a")
def test_f1_index_over_grpc(stub: Any) -> None:
    rows = stub.RepositoryIndex(pb.RepositoryIndexRequest()).models
    assert [(one.name, one.version, one.state) for one in rows][:2] == [("add", "1", "READY"), ("never", "", "")]
    rows = stub.RepositoryIndex(pb.RepositoryIndexRequest(ready=True)).models
    assert [{"name": one.name, "version": one.version, "state": one.state} for one in rows] == READY


def test_f1_index_of_a_server_without_a_repository(http: Transport) -> None:
    status, rows = post(http, "index")
    assert status == 200
    assert {"name": "ver", "version": "2", "state": "READY"} in rows
    assert all(row["state"] == "READY" for row in rows)


def ready(transport: Transport, model: str) -> tuple[int, bool]:
    reply = transport.request("GET", f"/v2/models/{model}/ready")
    return reply.status, reply.json()["ready"]


def test_f2_load_and_unload_toggle_readiness(transport: Transport) -> None:
    # Models passed as objects can be unloaded and loaded like those in a folder.
    for model in ("times", "ver"):
        assert ready(transport, model) == (200, True)
        assert post(transport, f"models/{model}/unload") == (200, {"name": model, "unload": True})
        assert ready(transport, model) == (503, False)
        metadata = transport.request("GET", f"/v2/models/{model}")
        assert metadata.refusal(503) == f"model '{model}' is not loaded"
        assert metadata.headers["retry-after"] == "1"
        assert post(transport, f"models/{model}/load") == (200, {"name": model, "load": True})
        assert ready(transport, model) == (200, True)
        # Already loaded: reloaded.
        assert post(transport, f"models/{model}/load", b"{}")[0] == 200
        assert ready(transport, model) == (200, True)
    assert transport.request("GET", "/v2/models/ver").json()["versions"] == ["1", "2"]


def test_f2_unloading_twice_is_not_an_error(transport: Transport) -> None:
    assert post(transport, "models/never/unload")[0] == 200
    assert post(transport, "models/never/unload")[0] == 200
    assert refused(transport, 404, "models/zzz/unload") == "unknown model 'zzz'"


def test_f2_over_grpc(stub: Any) -> None:
    is_ready = lambda: stub.ModelReady(pb.ModelReadyRequest(name="times")).ready  # noqa: E731
    stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="times"))
    assert is_ready() is False
    with pytest.raises(grpc.RpcError) as refusal:
        stub.ModelMetadata(pb.ModelMetadataRequest(name="times"))
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
    stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="times"))
    assert is_ready() is True


@pytest.mark.trap("T37")
@pytest.mark.parametrize(
    "model",
    ["zzz", "..", "%2e%2e", "%2E%2E%2Ftimes", "times%2F2", "times%00", ".hidden", "%2Fetc", "a%2F..%2Fnever"],
)
def test_f3_unknown_model_names_are_never_used_as_paths(transport: Transport, model: str) -> None:
    # Trap T37: an unknown model is NOT_FOUND in every call.
    for verb in ("load", "unload"):
        assert refused(transport, 404, f"models/{model}/{verb}").startswith(("unknown model '", "Not Found"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "the model's configuration is not JSON"),
        ("[]", "the model's configuration is not a JSON object"),
        ({"max_batch_size": 0}, "expected 1 or more"),
        ({"max_batch_size": "many"}, "config 'max_batch_size' is \"many\", expected an integer of 0 or more"),
        (
            {"backend": "onnxruntime"},
            "config 'backend' cannot be overridden for model 'times', expected max",
        ),
        ({"sequence_batching": {"direct": {}}}, "config 'sequence_batching' cannot be overridden"),
        (
            {"dynamic_batching": {"priority_levels": 2}},
            "'dynamic_batching.priority_levels' cannot be overridden",
        ),
        ({"instance_group": [{"kind": "KIND_GPU"}]}, "config 'instance_group[0].kind' is \"KIND_GPU\""),
        ({"version_policy": {"newest": {}}}, "config 'version_policy': "),
        ({"version_policy": {"specific": {"versions": [9]}}}, "model 'times' has no version of its version policy"),
    ],
)
def test_f3_invalid_configuration(transport: Transport, config: Any, message: str) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    assert message in refused(transport, 400, "models/times/load", {"parameters": {"config": text}})
    assert ready(transport, "times") == (200, True)


def test_f3_invalid_parameters(transport: Transport) -> None:
    def refusal_of(parameters: Any) -> str:
        return refused(transport, 400, "models/times/load", {"parameters": parameters})

    assert refusal_of([]) == "'parameters' is not an object"
    assert refusal_of({"config": {}}) == "load parameter 'config' is not a string"
    assert refusal_of({"zzz": 1}) == "unknown load parameter 'zzz', expected 'config' or 'file:<version>/<file>'"
    assert refusal_of({"file:1/model.py": ""}) == ("load parameters 'file:...' need the load parameter 'config' too")
    upload = {"parameters": {"config": "{}", "file:1/model.py": "eA=="}}
    expected = "load parameters 'file:...' are refused: the server was not started with load_files"
    assert refused(transport, 501, "models/times/load", upload) == expected


@pytest.mark.fault("new version fails")
def test_f3_failed_load_gives_the_reason_and_changes_nothing(explicit: Server, repository: Repository) -> None:
    client = RepositoryClient(explicit.http_url)
    repository.write("breaks", "1", "raise RuntimeError('/srv/secret')")
    status, response = client.load("breaks")
    assert status == 500
    assert response == {"error": "model 'breaks' version '1' could not be loaded: RuntimeError (model.py, line 1)"}
    assert client.reason("breaks") == response["error"]
    assert client.states("breaks") == {"1": "UNAVAILABLE"}
    repository.put("breaks", "1", 1, build="raise ValueError('no weights')")
    status, response = client.load("breaks")
    assert (status, response["error"]) == (
        500,
        "model 'breaks' version '1' could not be loaded: ValueError (model.py, line 13)",
    )
    repository.write("breaks", "1", "x = 1")
    assert client.load("breaks")[1]["error"].endswith("could not be loaded: model.py has no @model")
    (repository.path / "breaks" / "1" / "model.py").unlink()
    assert client.load("breaks") == (404, {"error": "unknown model 'breaks'"})


def test_f3_failed_load_over_grpc(stub: Any) -> None:
    def code(**request: Any) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as refusal:
            stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(**request))
        return refusal.value.code()

    assert code(model_name="zzz") == grpc.StatusCode.NOT_FOUND
    assert code() == grpc.StatusCode.INVALID_ARGUMENT
    wrong = {"config": pb.ModelRepositoryParameter(string_param='{"max_batch_size": 0}')}
    assert code(model_name="times", parameters=wrong) == grpc.StatusCode.INVALID_ARGUMENT
    typed = {"config": pb.ModelRepositoryParameter(bytes_param=b"{}")}
    assert code(model_name="times", parameters=typed) == grpc.StatusCode.INVALID_ARGUMENT


def test_f4_configuration_shows_overridden_settings(transport: Transport) -> None:
    override = {
        "max_batch_size": 32,
        "dynamic_batching": {
            "preferred_batch_size": [4, 16],
            "max_queue_delay_microseconds": 1500,
            "default_queue_policy": {"max_queue_size": 7},
        },
        "instance_group": [{"count": 2}, {"count": 1, "kind": "KIND_CPU"}],
        "version_policy": {"all": {}},
    }

    def config() -> Any:
        return transport.request("GET", "/v2/models/times/config").json()

    plain = config()
    parameters = {"parameters": {"config": json.dumps(override)}}
    assert post(transport, "models/times/load", parameters)[0] == 200
    loaded = config()
    assert loaded["max_batch_size"] == 32
    assert loaded["dynamic_batching"]["preferred_batch_size"] == [4, 16]
    assert loaded["dynamic_batching"]["max_queue_delay_microseconds"] == 1500
    assert loaded["instance_group"][0]["count"] == 3
    assert transport.request("GET", "/v2/models/times").json()["versions"] == ["1", "2"]
    # A client can send back the configuration that it received.
    returned = json.dumps({**loaded, "max_batch_size": 16})
    assert post(transport, "models/times/load", {"parameters": {"config": returned}}) == (
        200,
        {"name": "times", "load": True},
    )
    assert config()["max_batch_size"] == 16
    assert post(transport, "models/times/load")[0] == 200
    assert config() == plain
    assert transport.request("GET", "/v2/models/times").json()["versions"] == ["2"]


def test_f5_unload_dependents(transport: Transport) -> None:
    for value in (True, False):
        assert post(transport, "models/never/unload", {"parameters": {"unload_dependents": value}})[0] == 200
    message = refused(transport, 400, "models/never/unload", {"parameters": {"unload_dependents": 1}})
    assert message == "unload parameter 'unload_dependents' is not true or false"
    assert "'force'" in refused(transport, 400, "models/never/unload", {"parameters": {"force": True}})


def test_f6_named_repositories_are_not_implemented(transport: Transport) -> None:
    assert refused(transport, 501, "west/index") == NAMED
    for verb in ("load", "unload"):
        assert refused(transport, 501, f"west/models/times/{verb}") == NAMED


def test_f6_named_repositories_are_not_implemented_over_grpc(stub: Any) -> None:
    calls = [
        (stub.RepositoryIndex, pb.RepositoryIndexRequest(repository_name="west")),
        (stub.RepositoryModelLoad, pb.RepositoryModelLoadRequest(repository_name="west", model_name="times")),
        (stub.RepositoryModelUnload, pb.RepositoryModelUnloadRequest(repository_name="west", model_name="times")),
    ]
    for call, request in calls:
        with pytest.raises(grpc.RpcError) as refusal:
            call(request)
        assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.UNIMPLEMENTED, NAMED)


def test_cross_origin_requests_load_nothing(explicit: Server) -> None:
    client = RepositoryClient(explicit.http_url)
    for verb in ("load", "unload"):
        status, response = client("POST", f"/v2/repository/models/times/{verb}", None, Origin="http://localhost:8000")
        assert status == 403
        assert "the header 'Origin' is 'http://localhost:8000'" in response["error"]
    assert client.factor("times") == 3


@pytest.mark.trap("T22")
def test_g11_load_and_unload_with_kserve_messages(explicit: Server) -> None:
    # Trap T22: KServe has the model's name in field 1, where others have the repository's; the response has
    # the name and a loaded flag. These are the bytes of KServe's messages.
    request = b"\x0a\x05times"
    with grpc.insecure_channel(explicit.grpc_url) as channel:

        def call(name: str, sent: bytes) -> bytes:
            return channel.unary_unary(f"/inference.GRPCInferenceService/RepositoryModel{name}")(sent, timeout=20)

        assert call("Unload", request) == b"\x0a\x05times\x10\x01"
        assert RepositoryClient(explicit.http_url).factor("times") == "model 'times' is not loaded"
        assert call("Load", request) == b"\x0a\x05times\x10\x01"
        assert RepositoryClient(explicit.http_url).factor("times") == 3
        with pytest.raises(grpc.RpcError) as refusal:
            call("Load", b"\x0a\x03zzz")
        assert refusal.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.trap("T44")
@every_client
def test_tritonclient_sends_files(repository: Repository, kind: str) -> None:
    options: Any = {"repository": repository.path, "model_control": "explicit", "load_files": True}
    with Server(http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        client, rest = AnyClient(kind, server), RepositoryClient(server.http_url)
        code = MODEL.format(factor=7, before="from .more import PLUS", build="pass", call="x = x + PLUS", close="pass")
        files = {"file:3/model.py": code.encode(), "file:3/more.py": b"PLUS = 1.0"}
        client("load_model", "sent", config=json.dumps({"max_batch_size": 4}), files=files)
        assert rest.factor("sent") == 14
        assert rest.index("sent") == [{"name": "sent", "version": "3", "state": "READY"}]
        assert rest("GET", "/v2/models/sent/config")[1]["max_batch_size"] == 4
        client("unload_model", "sent")
        until(lambda: rest.states("sent") in ({}, {"3": "UNAVAILABLE"}), "the model to end")


@every_client
def test_tritonclient_loads_and_unloads(explicit: Server, kind: str) -> None:
    client = AnyClient(kind, explicit)
    options = {} if "http" in kind else {"as_json": True}

    def states() -> dict[str, str]:
        index = client("get_model_repository_index", **options)
        rows = index if "http" in kind else index["models"]
        return {row["version"]: row["state"] for row in rows if row["name"] == "times" and "version" in row}

    client("unload_model", "times", unload_dependents=True)
    assert client("is_model_ready", "times") is False
    client("load_model", "times", config=json.dumps({"max_batch_size": 5}))
    assert client("is_model_ready", "times") is True
    assert states()["2"] == "READY"
    config = client("get_model_config", "times", **options)
    assert (config if "http" in kind else config["config"])["max_batch_size"] == 5
    with pytest.raises(InferenceServerException) as refusal:
        client("load_model", "times", config="{}", files={"file:1/model.py": b"x"})
    assert refusal.value.status() == ("501" if "http" in kind else "StatusCode.UNIMPLEMENTED")
    with pytest.raises(InferenceServerException, match="unknown model 'zzz'"):
        client("load_model", "zzz")
    client("load_model", "times")
    assert "model_repository" in client("get_server_metadata", **options)["extensions"]
