"""`ModelServer.start`: arguments, served models and readiness."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import grpc
import pytest
from kserve_live import LOOPBACK, Double, Live, live
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import get
from penstock import BindError
from penstock.compat.kserve import ModelRepository, ModelServer, PredictorConfig, dialect
from penstock.compat.kserve.errors import NoModelReady
from penstock.compat.kserve.model import BaseKServeModel
from waiting import until

NOT_READY = {"error": "Model with name m is not ready."}


@pytest.fixture
def old_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the dialect 0.13."""
    monkeypatch.setattr(dialect, "_chosen", "0.13")


def ready_over_grpc(server: Live, name: str = "m") -> bool:
    with grpc.insecure_channel(server.target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return bool(stub.ModelReady(service_pb2.ModelReadyRequest(name=name)).ready)


def readiness(server: Live, name: str = "m") -> list[bool]:
    """Returns the readiness over V1, V2 and gRPC."""
    rest = [server.get(path)[0] == 200 for path in (f"/v1/models/{name}", f"/v2/models/{name}/ready")]
    return [*rest, ready_over_grpc(server, name)]


def test_s06_models_are_served_over_all_protocols() -> None:
    with live(Double("m"), Double("other")) as server:
        assert server.predict("m", 1, 2) == (200, {"predictions": [2, 4]})
        tensor = {"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}
        status, body = server.post("/v2/models/other/infer", {"inputs": [tensor]})
        assert (status, body["outputs"][0]["data"]) == (200, [2, 4])
        with grpc.insecure_channel(server.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            request = service_pb2.ModelInferRequest(model_name="m")
            one = request.inputs.add(name="x", datatype="INT64", shape=[2])
            one.contents.int64_contents.extend([3, 4])
            response = stub.ModelInfer(request)
        assert (response.outputs[0].name, list(response.outputs[0].shape)) == ("y", [2])


@pytest.mark.parametrize(
    ("collection", "text"),
    [
        ([object()], "Model type should be 'BaseKServeModel'"),
        ([Double(), "m"], "Model type should be 'BaseKServeModel'"),
        ((Double(),), "Unknown model collection type"),
        (Double(), "Unknown model collection type"),
        (None, "Unknown model collection type"),
        ("m", "Unknown model collection type"),
    ],
)
def test_s06_values_that_are_not_models_are_rejected(collection: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{text}$"):
        ModelServer(**LOOPBACK).start(collection)


def test_s06_dialect_0_13_has_its_own_error_text(old_dialect: None) -> None:
    with pytest.raises(RuntimeError, match=r"^Unknown model collection types$"):
        ModelServer(**LOOPBACK).start(None)


def test_s06_empty_model_list_is_allowed() -> None:
    with live() as server:
        assert server.get("/v1/models") == (200, {"models": []})
        assert server.get("/v2/health/ready") == (200, {"ready": True})
        assert server.predict() == (404, {"error": "Model with name m does not exist."})


def test_s06_latency_logging_setting_is_passed_to_models() -> None:
    model = Double()
    with live(model, enable_latency_logging=False):
        assert model.enable_latency_logging is False
    with live(model, enable_latency_logging=True):
        assert model.enable_latency_logging is True


def test_d12_unready_models_are_served_with_503() -> None:
    model = Double(ready=False)
    with live(model, Double("other")) as server:
        assert server.get("/v1/models") == (200, {"models": ["m", "other"]})
        assert server.get("/v1/models/m") == (503, NOT_READY)
        assert server.get("/v2/models/m/ready") == (503, NOT_READY)
        assert server.predict("m")[0] == 503
        assert server.predict("other")[0] == 200
        # The server's readiness does not depend on its models.
        assert server.get("/v2/health/ready") == (200, {"ready": True})
        model.ready = True
        assert server.predict("m")[0] == 200


def test_d12_require_ready_excludes_unready_models() -> None:
    with live(Double(ready=False), Double("other"), require_ready=True) as server:
        assert server.get("/v1/models") == (200, {"models": ["other"]})
        assert server.predict("m") == (404, {"error": "Model with name m does not exist."})
    server = ModelServer(**LOOPBACK, require_ready=True)
    with pytest.raises(NoModelReady, match=r"^Models with names m,n are not ready\.$"):
        server.start([Double(ready=False), Double("n", ready=False)])
    with live(require_ready=True):
        pass


def test_d20_model_start_is_called_once() -> None:
    started: list[str] = []

    class Starting(Double):
        def start(self) -> None:
            started.append(self.name)
            self.ready = True

    # The default `start` does not make a model ready.
    plain = Double("plain", ready=False)
    with live(Starting("a", ready=False), Starting("b"), plain) as server:
        assert started == ["a", "b"]
        assert [server.predict(name)[0] for name in ("a", "b", "plain")] == [200, 200, 503]


def test_d20_dialect_0_13_does_not_call_start(old_dialect: None) -> None:
    class Starting(Double):
        def start(self) -> None:
            raise AssertionError("start was called")

    with live(Starting()) as server:
        assert server.predict()[0] == 200


@pytest.mark.parametrize("ready", [True, False])
def test_s09_ready_assignments_apply_to_all_protocols(*, ready: bool) -> None:
    model = Double(ready=ready)
    with live(model) as server:
        for _ in range(2):
            assert readiness(server) == [model.ready] * 3
            assert server.predict()[0] == (200 if model.ready else 503)
            model.ready = not model.ready


def test_s09_background_load_updates_readiness() -> None:
    proceed = threading.Event()

    class Late(Double):
        def load(self) -> bool:
            assert proceed.wait(20)
            self.ready = True
            return True

    model = Late(ready=False)
    with live(model) as server:
        loading = threading.Thread(target=model.load)
        loading.start()
        assert readiness(server) == [False] * 3
        proceed.set()
        loading.join()
        assert readiness(server) == [True] * 3


@pytest.mark.parametrize("kind", ["plain", "async", "property"])
def test_s09_overridden_health_is_polled(kind: str) -> None:
    state = {"healthy": True}

    class Plain(Double):
        def healthy(self) -> bool:
            return state["healthy"]

    class Async(Double):
        async def healthy(self) -> bool:
            await asyncio.sleep(0)
            return state["healthy"]

    class Property(Double):
        @property
        def ready(self) -> bool:  # type: ignore[override]
            return state["healthy"]

        @ready.setter
        def ready(self, _: bool) -> None: ...

    model = {"plain": Plain, "async": Async, "property": Property}[kind]()
    with live(model) as server:
        assert readiness(server) == [True] * 3
        state["healthy"] = False
        assert readiness(server)[:2] == [False] * 2
        until(lambda: not ready_over_grpc(server), "gRPC readiness to change")
        assert server.predict()[0] == 503
        state["healthy"] = True
        assert server.get("/v1/models/m") == (200, {"name": "m", "ready": True})
        assert server.predict()[0] == 200
        # Without an HTTP probe before.
        state["healthy"] = False
        until(lambda: not ready_over_grpc(server), "gRPC readiness to change")
        state["healthy"] = True
        until(lambda: ready_over_grpc(server), "gRPC readiness to change")


def test_s09_overridden_repository_readiness_is_polled() -> None:
    class Never(ModelRepository):
        async def is_model_ready(self, name: str) -> bool:
            return name != "m"

    with live(Double("m"), Double("n"), registered_models=Never()) as server:
        assert [server.get(f"/v1/models/{name}")[0] for name in "mn"] == [503, 200]
        until(lambda: not ready_over_grpc(server), "gRPC readiness to change")
        assert ready_over_grpc(server, "n")


def test_s09_raising_health_check_affects_only_its_model() -> None:
    class Broken(Double):
        def healthy(self) -> bool:
            raise OSError("no device")

    with live(Broken(), Double("n")) as server:
        assert server.get("/v1/models/m") == (500, {"error": "OSError : no device"})
        assert server.get("/v1/models/n")[0] == 200


def test_s09_probes_do_not_queue_behind_predictions() -> None:
    entered, proceed = threading.Semaphore(0), threading.Event()

    class Blocking(Double):
        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            entered.release()
            assert proceed.wait(20)
            return {}

    with live(Blocking(), threads=2) as server:
        clients = [threading.Thread(target=server.predict) for _ in range(4)]
        for client in clients:
            client.start()
        assert all(entered.acquire(timeout=20) for _ in range(2))
        for path in ("/", "/v1/models/m", "/v2/models/m/ready", "/v2/health/live", "/v2/health/ready", "/v1/models"):
            assert server.get(path)[0] == 200
        assert ready_over_grpc(server)
        proceed.set()
        for client in clients:
            client.join(20)


def test_s04_models_can_be_registered_before_and_while_serving() -> None:
    server = ModelServer(**LOOPBACK)
    server.register_model(Double("early"))
    assert server.registered_models.get_model("early") is not None
    with live(Double("m"), registered_models=server.registered_models) as running:
        running.server.register_model(Double("late"))
        assert [running.predict(name)[0] for name in ("early", "m", "late")] == [200, 200, 200]

        class Thrice(Double):
            def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
                return {"predictions": [3 * one for one in payload["instances"]]}

        assert running.predict("m", 1) == (200, {"predictions": [2]})
        running.server.register_model(Thrice("m"))
        assert running.predict("m", 1) == (200, {"predictions": [3]})


def test_s04_models_may_have_several_names() -> None:
    model = Double()
    with live(model) as server:
        server.server.register_model(model, name="alias")
        assert server.get("/v1/models") == (200, {"models": ["m", "alias"]})
        assert [server.predict(name, 1) for name in ("m", "alias")] == [(200, {"predictions": [2]})] * 2
        model.ready = False
        assert [readiness(server, name) for name in ("m", "alias")] == [[False] * 3] * 2
    assert model.stopped == 1


def test_s04_models_without_a_name_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^Failed to register model, model.name must be provided\.$"):
        ModelServer().register_model(Double(""))


class Handle:
    """A handle like Ray Serve's."""

    def remote(self, body: Any, headers: Any = None, **_: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_result({"predictions": [len(body["instances"])]})
        return future


def test_s05_handles_are_served_and_always_ready() -> None:
    server = ModelServer(**LOOPBACK)
    server.register_model_handle("ray", Handle())
    with live(registered_models=server.registered_models) as running:
        assert readiness(running, "ray") == [True] * 3
        assert running.predict("ray", 1, 2, 3) == (200, {"predictions": [3]})


def test_models_without_inference_have_only_probes() -> None:
    class Base(BaseKServeModel):
        def __init__(self) -> None:
            super().__init__("base")
            self.ready = True

    with live(Base(), Double()) as server:
        assert server.get("/v1/models/base") == (200, {"name": "base", "ready": True})
        error = {"error": "ValueError : Model of type Base does not support inference"}
        assert server.predict("base") == (500, error)
        assert server.predict()[0] == 200


def test_ports_in_use_are_named_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port}"):
            ModelServer(**{**LOOPBACK, "http_port": port}).start([Double()])
        with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port}"):
            ModelServer(**{**LOOPBACK, "grpc_port": port}).start([Double()])


def test_grpc_can_be_disabled() -> None:
    with live(Double(), enable_grpc=False) as server:
        assert server.predict()[0] == 200
        assert server.server.grpc_port == 0


def test_s01_docs_page_is_served_if_enabled() -> None:
    for enabled, status in ((True, 200), (False, 404)):
        with live(Double(), enable_docs_url=enabled) as server:
            assert get(server.url, "/docs").status == status


def test_default_ports_equal_kserve() -> None:
    assert (ModelServer().http_port, ModelServer().grpc_port) == (8080, 8081)


class Typed(Double):
    def get_input_types(self) -> Any:
        return [{"name": "x", "datatype": "INT32", "shape": [-1, 2]}]

    async def get_output_types(self) -> Any:
        return [{"name": "y", "datatype": "INT32", "shape": [-1]}]


def test_server_routes_have_kserve_responses() -> None:
    with live(Typed()) as server:
        assert server.get("/") == (200, {"status": "alive"})
        assert server.get("/v2/health/live") == (200, {"live": True})
        assert server.get("/v2/health/ready") == (200, {"ready": True})
        assert server.get("/v1/models") == server.get("/v2/models") == (200, {"models": ["m"]})
        assert server.get("/v1/models/m") == server.get("/v2/models/m/ready") == (200, {"name": "m", "ready": True})
        assert server.get("/v2/models/m") == (
            200,
            {
                "name": "m",
                "versions": None,
                "platform": "",
                "inputs": [{"name": "x", "datatype": "INT32", "shape": [-1, 2]}],
                "outputs": [{"name": "y", "datatype": "INT32", "shape": [-1]}],
            },
        )
        not_found = (404, {"error": "Model with name none does not exist."})
        for path in ("/v1/models/none", "/v2/models/none", "/v2/models/none/ready"):
            assert server.get(path) == not_found
        for path in ("/v1/models/none:predict", "/v1/models/none:explain"):
            assert server.post(path, {"instances": []}) == not_found
        assert server.get("/v2")[1]["name"] == "kserve"
        assert get(server.url, "/metrics").status == 200
        assert server.post("/v1/models/m:other", {})[0] in (404, 405)


def metadata_over_grpc(server: Live) -> list[Any]:
    with grpc.insecure_channel(server.target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        metadata = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="m"))
    sides = (metadata.inputs, metadata.outputs)
    return [[(one.name, one.datatype, list(one.shape)) for one in side] for side in sides]


@pytest.mark.parametrize("options", [{}, {"max_batch_size": 4}])
def test_grpc_metadata_contains_declared_tensors(options: dict[str, Any]) -> None:
    with live(Typed(), **options) as server:
        assert metadata_over_grpc(server) == [[("x", "INT32", [-1, 2])], [("y", "INT32", [-1])]]
        # Declarations are shown, not checked.
        assert server.predict() == (200, {"predictions": [2]})


def test_grpc_metadata_omits_invalid_declarations() -> None:
    class InvalidTypes(Double):
        def get_input_types(self) -> Any:
            raise RuntimeError("not loaded")

        async def get_output_types(self) -> Any:
            await asyncio.sleep(0)
            return [{"name": "y", "datatype": "INT32", "shape": [-1]}]

    with live(InvalidTypes()) as server:
        assert metadata_over_grpc(server) == [[], []]
        assert server.predict()[0] == 200


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2"])
def test_predictor_health_check_sets_transformer_readiness(protocol: str) -> None:
    predictor = Double()
    with live(predictor, Double("other")) as upstream:
        host = upstream.target if protocol == "grpc-v2" else upstream.url.removeprefix("http://")
        config = PredictorConfig(host, protocol, predictor_health_check=True)
        with live(Double(), predictor_config=config) as server:
            assert server.get("/v2/health/ready") == (200, {"ready": True})
            assert server.get("/v1/models/m") == (200, {"name": "m", "ready": True})
            predictor.ready = False
            assert server.get("/v1/models/m") == (503, NOT_READY)
            assert server.get("/v2/models/m/ready") == (503, NOT_READY)
            # Requests are accepted: they may wake the predictor.
            assert server.predict()[0] == 200
            predictor.ready = True
            assert server.get("/v1/models/m")[0] == 200
        listener = socket.create_server(("127.0.0.1", 0))
        closed_address = f"127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
    config = PredictorConfig(closed_address, protocol, predictor_health_check=True)
    with live(Double(), predictor_config=config) as server:
        assert server.get("/v2/health/ready") == (503, {"error": "Server is not ready."})
        assert server.get("/v1/models/m") == (503, NOT_READY)
