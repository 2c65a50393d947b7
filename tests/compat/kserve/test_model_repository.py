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


class Shelf(ModelRepository):
    """Loads models of any name, except a few."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.loaded: list[str] = []

    def load(self, name: str) -> bool:
        self.loaded.append(name)
        if name == "broken":
            raise OSError("no weights")
        if name == "nothing":
            return False
        self.update(Double(name, ready=name != "lazy"))
        return True


class AsyncShelf(Shelf):
    async def load(self, name: str) -> bool:  # type: ignore[override]
        await asyncio.sleep(0)
        return Shelf.load(self, name)


def test_r5_a_repository_holds_models_by_name() -> None:
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


def test_r5_unload_stops_a_model_once_it_has_no_name_left() -> None:
    repository, model = ModelRepository(), Double("a")
    repository.update(model)
    repository.update(model, "alias")
    repository.unload("a")
    assert (model.stopped, model.ready) == (0, True)
    repository.unload("alias")
    assert (model.stopped, model.ready, repository.models) == (1, False, {})
    with pytest.raises(KeyError, match="model with name a does not exist"):
        repository.unload("a")


def test_r5_unload_stops_an_engine_too() -> None:
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


def test_d10_readiness_is_plain_or_awaitable() -> None:
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


def test_the_extension_lists_loads_and_unloads() -> None:
    shelf = Shelf()
    extension = ModelRepositoryExtension(shelf)
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
    run(ModelRepositoryExtension(AsyncShelf()).load("b"))


def test_the_data_plane_describes_a_repository() -> None:
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
    for ask in (plane.model_ready, plane.get_model, plane.model_metadata):
        with pytest.raises(ModelNotFound):
            run(ask("none"))


def repository_stub(server: Live, channel: grpc.Channel) -> Any:
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.mark.parametrize("kind", [Shelf, AsyncShelf])
def test_r5_clients_load_and_unload_over_rest(kind: type[Shelf]) -> None:
    shelf = kind()
    with live(registered_models=shelf) as server:
        assert server.get("/v1/models") == (200, {"models": []})
        assert server.predict("a") == (404, {"error": "Model with name a does not exist."})
        assert server.load("a") == (200, {"name": "a", "load": True})
        assert server.predict("a", 4) == (200, {"predictions": [8]})
        assert server.get("/v2/models") == (200, {"models": ["a"]})
        first = shelf.models["a"]
        # A second load replaces the model.
        assert server.load("a")[0] == 200
        assert shelf.models["a"] is not first
        assert server.predict("a", 4)[0] == 200
        assert server.unload("a") == (200, {"name": "a", "unload": True})
        assert server.predict("a") == (404, {"error": "Model with name a does not exist."})
        assert server.unload("a") == (404, {"error": "Model with name a does not exist."})
        status, said = server.load("broken")
        assert (status, said["error"]) == (
            503,
            "Model with name broken is not ready. Error type: <class 'OSError'> error msg: no weights",
        )
        assert server.load("nothing") == (503, {"error": "Model with name nothing is not ready."})
        assert server.load("lazy") == (503, {"error": "Model with name lazy is not ready."})


def test_r5_a_plain_repository_loads_nothing() -> None:
    with live(Double()) as server:
        assert server.load("other") == (503, {"error": "Model with name other is not ready."})
        # A served model is ready.
        assert server.load("m") == (200, {"name": "m", "load": True})


def test_r5_clients_load_and_unload_over_grpc() -> None:
    shelf = Shelf()
    load, unload = service_pb2.RepositoryModelLoadRequest, service_pb2.RepositoryModelUnloadRequest
    with live(registered_models=shelf) as server, grpc.insecure_channel(server.target) as channel:
        stub = repository_stub(server, channel)
        stub.RepositoryModelLoad(load(model_name="a"))
        assert server.predict("a", 4) == (200, {"predictions": [8]})
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="a")).ready
        stub.RepositoryModelUnload(unload(model_name="a"))
        assert server.predict("a")[0] == 404
        for call, request, code, said in (
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
            assert (refused.value.code().name, refused.value.details()) == (code, said)


def test_r5_models_that_come_by_other_ways_are_served() -> None:
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


def test_r5_a_long_load_delays_no_request() -> None:
    started, go_on = threading.Event(), threading.Event()

    class Slow(Shelf):
        def load(self, name: str) -> bool:
            started.set()
            assert go_on.wait(20)
            return super().load(name)

    with live(Double(), registered_models=Slow()) as server:
        [loaded] = at_once([lambda: server.load("slow")])
        assert started.wait(20)
        assert server.predict()[0] == 200
        assert server.get("/v1/models/m") == (200, {"name": "m", "ready": True})
        go_on.set()
        assert loaded.result() == (200, {"name": "slow", "load": True})


def test_r5_a_repository_of_its_own_kind_is_followed_after_each_load() -> None:
    """One that keeps its models elsewhere tells nobody of them."""

    class Own(ModelRepository):
        def __init__(self) -> None:
            self.kept: dict[str, Any] = {}

        def get_models(self) -> Any:
            return self.kept

        def get_model(self, name: str) -> Any:
            return self.kept.get(name)

        def load(self, name: str) -> None:
            self.kept[name] = Double(name)

        def unload(self, name: str) -> None:
            del self.kept[name]

    with live(registered_models=Own()) as server:
        assert server.load("a")[0] == 200
        assert server.predict("a")[0] == 200
        assert server.unload("a")[0] == 200
        until(lambda: server.predict("a")[0] == 404)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_r5_a_model_is_stopped_after_its_last_request(kind: str) -> None:
    entered, go_on, order = threading.Event(), threading.Event(), []

    class Plain(Double):
        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            entered.set()
            assert go_on.wait(20)
            order.append("answered")
            return {"predictions": []}

        def stop(self) -> None:
            order.append("stopped")

    class Async(Plain):
        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:  # type: ignore[override]
            return await asyncio.to_thread(super().predict, payload)

    with live((Plain if kind == "plain" else Async)(), Double("other")) as server:
        [answer] = at_once([server.predict])
        assert entered.wait(20)
        [unloaded] = at_once([lambda: server.unload("m")])
        until(lambda: server.get("/v1/models/m")[0] == 404)
        # New requests do not find the model; running ones complete.
        assert server.predict("other")[0] == 200
        assert order == []
        go_on.set()
        assert answer.result() == (200, {"predictions": []})
        assert unloaded.result()[0] == 200
        assert order == ["answered", "stopped"]


def test_r5_a_model_is_served_or_unknown_during_loads() -> None:
    shelf = Shelf()
    with live(registered_models=shelf) as server:
        over = threading.Event()
        found: set[tuple[int, str]] = set()

        def ask() -> None:
            while not over.is_set():
                status, said = server.predict("a", 1)
                found.add((status, str(said)))

        clients = at_once([ask] * 4)
        for _ in range(15):
            assert server.load("a")[0] == 200
            assert server.predict("a", 1)[0] == 200
            assert server.load("a")[0] == 200
            assert server.unload("a")[0] == 200
        over.set()
        for client in clients:
            client.result()
        # No other status, and no server error.
        assert found <= {
            (200, "{'predictions': [2]}"),
            (404, "{'error': 'Model with name a does not exist.'}"),
            (503, "{'error': 'Model with name a is not ready.'}"),
        }
