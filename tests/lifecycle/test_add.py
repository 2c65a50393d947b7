"""Models added to a running server, and removed from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, post
from penstock import (
    Batching,
    ConfigError,
    LoadError,
    Model,
    NotFound,
    Pipeline,
    Server,
    SignatureError,
    StartupError,
    Step,
    Tensor,
    Unavailable,
    model,
)
from repositories import Repository
from waiting import Gate, at_once, until

X = np.array([[1]], np.float32)
PORTS = {"http": "127.0.0.1:0", "grpc": None}


def times(name: str, factor: float = 2, version: str = "1", gate: Gate | None = None) -> Model[..., Any]:
    def call(x: Any) -> Any:
        if gate:
            gate.enter()
        return x * np.float32(factor)

    shape = [Tensor("x", np.float32, [1])], [Tensor("y", np.float32, [1])]
    return model(call, name=name, version=version, inputs=shape[0], outputs=shape[1], batching=Batching(8))


def factor(server: Server, name: str, version: str = "") -> float | int:
    """The factor of a model, or the status of its refusal."""
    response = infer(server.http_url, name + (f"/versions/{version}" if version else ""), {"x": X})
    return float(response.array("y")[0, 0]) if response.status == 200 else response.status


def index(server: Server) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = post(server.http_url, "/v2/repository/index", b"{}").json()
    return rows


def test_empty_server_is_ready_and_accepts_models() -> None:
    with Server.empty(**PORTS) as server:
        assert get(server.http_url, "/v2/health/ready").status == 200
        assert factor(server, "a") == 404
        assert server.add(times("a", 2)) == ["a"]
        assert server.add(times("b", 3), times("c", 4)) == ["b", "c"]
        assert server.add() == []
        assert [factor(server, name) for name in "abc"] == [2, 3, 4]
        assert sorted(one["name"] for one in index(server)) == ["a", "b", "c"]
        assert {one["state"] for one in index(server)} == {"READY"}


def test_empty_server_must_listen() -> None:
    with pytest.raises(ConfigError, match=r"^http and grpc are both off: nothing would listen$"):
        Server.empty(http=None, grpc=None)


def test_version_is_added_to_existing_versions() -> None:
    with Server(times("a", 2), **PORTS) as server:
        server.add(times("a", 3, version="2"))
        assert (factor(server, "a", "1"), factor(server, "a", "2"), factor(server, "a")) == (2, 3, 3)
        server.remove("a", "2")
        assert (factor(server, "a"), factor(server, "a", "2")) == (2, 404)


def test_removed_model_finishes_its_requests_and_is_unknown_afterwards() -> None:
    gate = Gate()
    with Server(times("a", 2, gate=gate), times("b"), **PORTS) as server:
        [response] = at_once([lambda: factor(server, "a")])
        gate.await_entered()
        server.remove("a")
        assert factor(server, "a") == 404
        assert {one["name"]: one["state"] for one in index(server)} == {"a": "UNLOADING", "b": "READY"}
        gate.open()
        assert response.result() == 2
        until(lambda: [one["name"] for one in index(server)] == ["b"])
        server.add(times("a", 5))
        assert factor(server, "a") == 5


def test_removed_handler_is_garbage_collected() -> None:
    import weakref

    class Handler:
        def __call__(self, x: Any) -> Any:
            return x

    options = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
    with Server(times("b"), **PORTS) as server:
        held = Handler()
        handler_ref = weakref.ref(held)
        server.add(model(held, name="a", batching=Batching(8), **options))  # type: ignore[call-overload]
        del held
        assert factor(server, "a") == 1
        server.remove("a")
        until(lambda: handler_ref() is None, "the removed handler to be collected")


def test_failed_build_adds_no_model() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no weights")

        def __call__(self, x: Any) -> Any: ...

    shape = [Tensor("x", np.float32, [1])]
    broken = model(Broken, name="broken", inputs=shape, outputs=[Tensor("y", np.float32, [1])])
    with Server(times("a"), **PORTS) as server:
        with pytest.raises(LoadError, match="broken") as refused:
            server.add(times("b"), broken)
        assert str(refused.value.__cause__) == "no weights"
        assert [one["name"] for one in index(server)] == ["a"]
        assert (factor(server, "a"), factor(server, "b")) == (2, 404)
        server.add(times("broken", 7))
        assert factor(server, "broken") == 7


def test_duplicate_names_are_rejected(tmp_path: Path) -> None:
    folder = Repository(tmp_path)
    folder.put("here")
    with Server(times("a"), repository=tmp_path, **PORTS) as server:
        with pytest.raises(StartupError, match=r"^model 'a' version '1' is given twice"):
            server.add(times("a", 9))
        with pytest.raises(StartupError, match=r"^model 'here' is given twice, one of them in a repository$"):
            server.add(times("here"))
        assert factor(server, "a") == 2


def test_replacing_a_model_fails_no_request() -> None:
    gate = Gate()
    with Server(times("a", 2, gate=gate), times("b"), **PORTS) as server:
        [before] = at_once([lambda: factor(server, "a")])
        gate.await_entered()
        assert server.add(times("a", 3), times("c", 4), replace=True) == ["a", "c"]
        assert (factor(server, "a"), factor(server, "c")) == (3, 4)
        gate.open()
        assert before.result() == 2
        assert server.add(times("a", 5, version="2"), replace=True) == ["a"]
        assert (factor(server, "a", "1"), factor(server, "a")) == (3, 5)
        server.remove("a")
        assert (factor(server, "a"), factor(server, "b")) == (404, 2)


def test_failed_build_replaces_no_model() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no weights")

        def __call__(self, x: Any) -> Any: ...

    shape = [Tensor("x", np.float32, [1])]
    broken = model(Broken, name="a", inputs=shape, outputs=[Tensor("y", np.float32, [1])])
    with Server(times("a", 2), **PORTS) as server:
        with pytest.raises(LoadError, match="'a'"):
            server.add(broken, replace=True)
        assert factor(server, "a") == 2
        assert {one["state"] for one in index(server)} == {"READY"}


def test_only_models_passed_to_the_server_can_be_removed(tmp_path: Path) -> None:
    Repository(tmp_path).put("here")
    with Server(times("a"), repository=tmp_path, **PORTS) as server:
        for name, version, name_text in (("here", None, "'here'"), ("a", "2", "'a' version '2'"), ("b", None, "'b'")):
            with pytest.raises(NotFound, match=f"^the server was given no model {name_text}$"):
                server.remove(name, version)


def test_callers_of_peers_are_added_after_and_removed_before_them() -> None:
    a = times("a", 2)
    pipe = Pipeline("pipe", [Step("a", {"x": "in"}, {"y": "out"})], inputs=["in"], outputs=["out"])
    with Server.empty(**PORTS) as server:
        with pytest.raises(SignatureError):
            server.add(pipe)
        server.add(a)
        server.add(pipe)
        assert infer(server.http_url, "pipe", {"in": X}).array("out").tolist() == [[2]]
        with pytest.raises(SignatureError, match=r"^model 'pipe' calls 'a', which is not served"):
            server.remove("a")
        server.remove("pipe")
        server.remove("a")
        until(lambda: index(server) == [])


def test_models_of_a_polled_repository_are_not_affected(tmp_path: Path) -> None:
    folder = Repository(tmp_path)
    folder.put("here", factor=4)
    with Server(times("a"), repository=tmp_path, model_control="poll", poll_interval=0.05, **PORTS) as server:
        server.add(times("b", 3))
        folder.put("later", factor=5)
        until(lambda: factor(server, "later") == 5)
        server.remove("a")
        folder.put("later", factor=6)
        until(lambda: factor(server, "later") == 6)
        assert [factor(server, name) for name in ("a", "b", "here")] == [404, 3, 4]


def test_add_and_remove_require_a_running_server() -> None:
    server = Server(times("a"), **PORTS)
    with pytest.raises(StartupError, match=r"^the server is not started, so nothing can be added"):
        server.add(times("b"))
    with pytest.raises(StartupError, match=r"^the server is not started, so nothing can be removed"):
        server.remove("a")
    server.start()
    server.stop()
    with pytest.raises(Unavailable, match=r"^the server is shutting down$"):
        server.add(times("b"))
    with pytest.raises(Unavailable, match=r"^the server is shutting down$"):
        server.remove("a")


def test_requests_are_served_while_a_model_is_built() -> None:
    gate = Gate()

    class Slow:
        def __init__(self) -> None:
            gate.enter()

        def __call__(self, x: Any) -> Any:
            return x

    shape = [Tensor("x", np.float32, [1])]
    slow = model(Slow, name="slow", inputs=shape, outputs=[Tensor("y", np.float32, [1])], batching=Batching(8))
    with Server(times("a"), **PORTS) as server:
        [added] = at_once([lambda: server.add(slow)])
        gate.await_entered()
        assert (factor(server, "a"), factor(server, "slow")) == (2, 503)
        assert {one["name"]: one["state"] for one in index(server)} == {"a": "READY", "slow": "LOADING"}
        gate.open()
        assert added.result() == ["slow"]
        assert factor(server, "slow") == 1
