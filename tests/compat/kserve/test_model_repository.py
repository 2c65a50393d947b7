"""`ModelRepository`, its extension and the data plane without a server; loading and unloading by clients."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from kserve_live import Double, Live, live
from tritonclient.grpc import service_pb2, service_pb2_grpc

from penstock.compat.kserve import Model, ModelRepository
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady
from penstock.compat.kserve.protocol.dataplane import DataPlane
from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension
from waiting import at_once, until


def run(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


class LoadingRepository(ModelRepository):
    """Loads models of any name, except a few."""

    def __init__(self) -> None:
        super().__init__("/models")
        self.loaded: list[str] = []

    def load(self, name: str) -> bool:
        self.loaded.append(name)
        if name == "broken":
            raise OSError("no weights")
        if name == "nothing":
            return False
        self.update(Double(name, ready=name != "lazy"))
        return True


class AsyncLoadingRepository(LoadingRepository):
    async def load(self, name: str) -> bool:  # type: ignore[override]
        await asyncio.sleep(0)
        return LoadingRepository.load(self, name)


def test_r5_repository_maps_names_to_models() -> None:
    repository = ModelRepository("/models")
    model = Double("a")
    assert (repository.models_dir, repository.get_models(), repository.get_model("a")) == ("/models", {}, None)
    repository.update(model)
    repository.update(model, name="alias")
    assert repository.get_models() == {"a": model, "alias": model} == repository.models
    repository.set_models_dir("/other")
    assert repository.models_dir == "/other"
    assert repository.load("x") is None
    assert repository.load_model("x") is None


def test_r5_load_models_loads_each_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    seen: list[str] = []

    class Folders(ModelRepository):
        def load_model(self, name: str) -> None:
            seen.append(name)

    Folders(str(tmp_path)).load_models()
    assert sorted(seen) == ["a", "b"]


def test_r5_unloading_the_last_name_stops_a_model() -> None:
    repository, model = ModelRepository(), Double("a")
    repository.update(model)
    repository.update(model, "alias")
    repository.unload("a")
    assert (model.stopped, model.ready) == (0, True)
    repository.unload("alias")
    assert (model.stopped, model.ready, repository.models) == (1, False, {})
    with pytest.raises(KeyError, match="model with name a does not exist"):
        repository.unload("a")


def test_r5_unload_stops_engines() -> None:
    ended: list[str] = []

    class Engine(Double):
        def __init__(self) -> None:
            super().__init__("e")
            self.engine = True

        async def stop(self) -> None:  # type: ignore[override]
            ended.append("stop")

        def stop_engine(self) -> None:
            ended.append("engine")

    repository = ModelRepository()
    repository.update(Engine())
    repository.unload("e")
    assert ended == ["stop", "engine"]


def test_d10_repository_readiness_is_boolean_or_awaitable() -> None:
    class Sync(Model):
        def healthy(self) -> bool:
            return True

    class Async(Model):
        async def healthy(self) -> bool:
            return True

    repository = ModelRepository()
    for model in (Double("ready"), Double("not", ready=False), Sync("sync"), Async("async")):
        repository.update(model)
    repository.update_handle("handle", object())
    assert [bool(repository.is_model_ready(name)) for name in ("ready", "not", "sync", "handle", "none")] == [
        *(True, False, True, True, False)
    ]
    assert [run(repository.is_model_ready(name)) for name in ("ready", "not", "sync", "async", "handle", "none")] == [
        *(True, False, True, True, True, False)
    ]


@pytest.mark.usefixtures("old_dialect")
def test_d10_readiness_in_the_old_dialect_is_a_bool() -> None:
    class Sync(Model):
        def healthy(self) -> Any:
            return 1

    class Async(Model):
        async def healthy(self) -> bool:
            return True

    repository = ModelRepository()
    for model in (Double("ready"), Double("not", ready=False), Sync("sync"), Async("async")):
        repository.update(model)
    repository.update_handle("handle", object())
    found = [repository.is_model_ready(name) for name in ("ready", "not", "sync", "handle", "none")]
    assert [one is True for one in found] == [True, False, True, True, False]
    assert {type(one) for one in found} == {bool}
    assert type(repository.get_model("ready").healthy()) is bool
    # A script that has an async method awaits it.
    assert run(repository.is_model_ready("async")) is True


@pytest.mark.usefixtures("old_dialect")
def test_d10_server_of_the_old_dialect_follows_readiness() -> None:
    class Switched(Double):
        def healthy(self) -> bool:
            return self.ready

    ready, unready = Switched("ready"), Switched("unready", ready=False)
    with live(ready, unready) as server:
        assert server.get("/v2/models/ready/ready")[0] == 200
        assert server.get("/v2/models/unready/ready")[0] == 503


def test_repository_extension_lists_loads_and_unloads() -> None:
    repository = LoadingRepository()
    extension = ModelRepositoryExtension(repository)
    run(extension.load("a"))
    with pytest.raises(ModelNotReady, match=r"^Model with name lazy is not ready\.$"):
        run(extension.load("lazy"))
    assert run(extension.index()) == [
        {"name": "a", "state": "Ready", "reason": ""},
        {"name": "lazy", "state": "NotReady", "reason": ""},
    ]
    assert [one["name"] for one in run(extension.index(filter_ready=True))] == ["a"]
    with pytest.raises(ModelNotReady) as refused:
        run(extension.load("broken"))
    assert str(refused.value) == (
        "Model with name broken is not ready. Error type: <class 'OSError'> error msg: no weights"
    )
    run(extension.unload("a"))
    with pytest.raises(ModelNotFound, match=r"^Model with name a does not exist\.$"):
        run(extension.unload("a"))
    run(ModelRepositoryExtension(AsyncLoadingRepository()).load("b"))


def test_data_plane_reads_the_repository() -> None:
    repository = ModelRepository()
    model = Double("m", ready=False)
    repository.update(model)
    plane = DataPlane(repository)
    assert run(plane.live()) == {"status": "alive"}
    assert run(plane.ready()) is True
    assert plane.metadata()["name"] == "kserve"
    assert plane.metadata()["extensions"] == ["model_repository_extension"]
    assert run(plane.model_metadata("m")) == {"name": "m", "platform": "", "inputs": [], "outputs": []}
    assert run(plane.model_ready("m")) is False
    assert run(plane.get_model("m")) is model
    assert model.ready
    assert run(plane.model_ready("m")) is True
    response, _ = run(plane.infer("m", {"instances": [1]}))
    assert response == {"predictions": [2]}
    for method in (plane.model_ready, plane.get_model, plane.model_metadata):
        with pytest.raises(ModelNotFound):
            run(method("none"))


def repository_stub(server: Live, channel: grpc.Channel) -> Any:
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.mark.parametrize("kind", [LoadingRepository, AsyncLoadingRepository])
def test_r5_clients_load_and_unload_over_rest(kind: type[LoadingRepository]) -> None:
    repository = kind()
    with live(registered_models=repository) as server:
        assert server.get("/v1/models") == (200, {"models": []})
        assert server.predict("a") == (404, {"error": "Model with name a does not exist."})
        assert server.load("a") == (200, {"name": "a", "load": True})
        assert server.predict("a", 4) == (200, {"predictions": [8]})
        assert server.get("/v2/models") == (200, {"models": ["a"]})
        first = repository.models["a"]
        # A second load replaces the model.
        assert server.load("a")[0] == 200
        assert repository.models["a"] is not first
        assert server.predict("a", 4)[0] == 200
        assert server.unload("a") == (200, {"name": "a", "unload": True})
        assert server.predict("a") == (404, {"error": "Model with name a does not exist."})
        assert server.unload("a") == (404, {"error": "Model with name a does not exist."})
        status, body = server.load("broken")
        assert (status, body["error"]) == (
            503,
            "Model with name broken is not ready. Error type: <class 'OSError'> error msg: no weights",
        )
        assert server.load("nothing") == (503, {"error": "Model with name nothing is not ready."})
        assert server.load("lazy") == (503, {"error": "Model with name lazy is not ready."})


def test_r5_default_repository_cannot_load() -> None:
    with live(Double()) as server:
        assert server.load("other") == (503, {"error": "Model with name other is not ready."})
        # A served model is ready.
        assert server.load("m") == (200, {"name": "m", "load": True})


def test_r5_clients_load_and_unload_over_grpc() -> None:
    repository = LoadingRepository()
    load, unload = service_pb2.RepositoryModelLoadRequest, service_pb2.RepositoryModelUnloadRequest
    with live(registered_models=repository) as server, grpc.insecure_channel(server.target) as channel:
        stub = repository_stub(server, channel)
        stub.RepositoryModelLoad(load(model_name="a"))
        assert server.predict("a", 4) == (200, {"predictions": [8]})
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="a")).ready
        stub.RepositoryModelUnload(unload(model_name="a"))
        assert server.predict("a")[0] == 404
        for call, request, code, details in (
            (stub.RepositoryModelUnload, unload(model_name="a"), "NOT_FOUND", "Model with name a does not exist."),
            (
                stub.RepositoryModelLoad,
                load(model_name="nothing"),
                "UNAVAILABLE",
                "Model with name nothing is not ready.",
            ),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call(request)
            assert (refused.value.code().name, refused.value.details()) == (code, details)


def test_r5_models_added_to_the_repository_directly_are_served() -> None:
    repository = ModelRepository()
    with live(registered_models=repository) as server:
        repository.update(Double("a"))
        repository.models["b"] = Double("b")
        repository.models.update(c=Double("c"))
        assert [server.predict(name)[0] for name in "abc"] == [200, 200, 200]
        del repository.models["b"]
        repository.models.pop("c")
        assert [server.predict(name)[0] for name in "abc"] == [200, 404, 404]
        repository.models = {"d": Double("d")}
        assert [server.predict(name)[0] for name in "ad"] == [404, 200]
        repository.models.clear()
        assert server.get("/v1/models") == (200, {"models": []})


def test_r5_slow_load_does_not_delay_requests() -> None:
    started, proceed = threading.Event(), threading.Event()

    class Slow(LoadingRepository):
        def load(self, name: str) -> bool:
            started.set()
            assert proceed.wait(20)
            return super().load(name)

    with live(Double(), registered_models=Slow()) as server:
        [loaded] = at_once([lambda: server.load("slow")])
        assert started.wait(20)
        assert server.predict()[0] == 200
        assert server.get("/v1/models/m") == (200, {"name": "m", "ready": True})
        proceed.set()
        assert loaded.result() == (200, {"name": "slow", "load": True})


def test_r5_repositories_with_own_storage_are_synced_after_each_load() -> None:
    """Such a repository does not report changes of its models."""

    class OwnStorage(ModelRepository):
        def __init__(self) -> None:
            self.loaded: dict[str, Any] = {}

        def get_models(self) -> Any:
            return self.loaded

        def get_model(self, name: str) -> Any:
            return self.loaded.get(name)

        def load(self, name: str) -> None:
            self.loaded[name] = Double(name)

        def unload(self, name: str) -> None:
            del self.loaded[name]

    with live(registered_models=OwnStorage()) as server:
        assert server.load("a")[0] == 200
        assert server.predict("a")[0] == 200
        assert server.unload("a")[0] == 200
        until(lambda: server.predict("a")[0] == 404)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_r5_models_are_stopped_after_their_last_request(kind: str) -> None:
    entered, proceed, order = threading.Event(), threading.Event(), []

    class Plain(Double):
        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            entered.set()
            assert proceed.wait(20)
            order.append("predicted")
            return {"predictions": []}

        def stop(self) -> None:
            order.append("stopped")

    class Async(Plain):
        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:  # type: ignore[override]
            return await asyncio.to_thread(super().predict, payload)

    with live((Plain if kind == "plain" else Async)(), Double("other")) as server:
        [response] = at_once([server.predict])
        assert entered.wait(20)
        [unloaded] = at_once([lambda: server.unload("m")])
        until(lambda: server.get("/v1/models/m")[0] == 404)
        # New requests do not find the model; running ones complete.
        assert server.predict("other")[0] == 200
        assert order == []
        proceed.set()
        assert response.result() == (200, {"predictions": []})
        assert unloaded.result()[0] == 200
        assert order == ["predicted", "stopped"]


def test_r5_models_are_served_or_unknown_during_reloads() -> None:
    repository = LoadingRepository()
    with live(registered_models=repository) as server:
        done = threading.Event()
        responses: set[tuple[int, str]] = set()

        def predict_until_done() -> None:
            while not done.is_set():
                status, body = server.predict("a", 1)
                responses.add((status, str(body)))

        clients = at_once([predict_until_done] * 4)
        for _ in range(15):
            assert server.load("a")[0] == 200
            assert server.predict("a", 1)[0] == 200
            assert server.load("a")[0] == 200
            assert server.unload("a")[0] == 200
        done.set()
        for client in clients:
            client.result()
        # No other status, and no server error.
        assert responses <= {
            (200, "{'predictions': [2]}"),
            (404, "{'error': 'Model with name a does not exist.'}"),
            (503, "{'error': 'Model with name a is not ready.'}"),
        }
