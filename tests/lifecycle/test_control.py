"""Models that clients load and unload, and that code of the user's own brings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer, post
from penstock import ConfigError, Forbidden, Model, NotFound, Server, Tensor, Unavailable, model

X = np.array([1], np.float32)


def times(name: str, factor: float) -> Model[..., Any]:
    shape = [Tensor("x", np.float32, [1])], [Tensor("y", np.float32, [1])]
    return model(lambda x: x * np.float32(factor), name=name, inputs=shape[0], outputs=shape[1])


class Shelf:
    """Has models of any name but a few, each time with a greater factor."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.asked: list[tuple[str, str | None]] = []

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        assert not files
        self.asked.append((name, config))
        if name == "secret":
            raise Forbidden("not for you")
        if name == "late":
            raise Unavailable("come back later")
        if name == "broken":
            raise OSError("/secret/place")
        assert self.server is not None
        self.server.add(times(name, len(self.asked)), replace=True)

    def unload(self, name: str) -> None:
        assert self.server is not None
        self.server.remove(name)


def asked(server: Server, name: str, action: str = "load", body: bytes = b"{}") -> tuple[int, Any]:
    answer = post(server.http_url, f"/v2/repository/models/{name}/{action}", body)
    return answer.status, answer.json() if answer.body else None


def factor(server: Server, name: str) -> float | int:
    answer = infer(server.http_url, name, {"x": X})
    return float(answer.array("y")[0]) if answer.status == 200 else answer.status


def test_clients_load_and_unload_what_the_control_brings() -> None:
    shelf = Shelf()
    with Server.empty(http="127.0.0.1:0", grpc="127.0.0.1:0", control=shelf) as server:
        shelf.server = server
        assert factor(server, "a") == 404
        assert asked(server, "a")[0] == 200
        assert factor(server, "a") == 1
        # Again: in its place.
        assert asked(server, "a", body=b'{"parameters": {"config": "{}"}}')[0] == 200
        assert (factor(server, "a"), shelf.asked) == (2, [("a", None), ("a", "{}")])
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="b"))
            assert factor(server, "b") == 3
            stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="b"))
            assert factor(server, "b") == 404
            with pytest.raises(grpc.RpcError) as refused:
                stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="b"))
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert asked(server, "a", "unload")[0] == 200
        assert factor(server, "a") == 404


def test_what_the_control_raises_is_the_answer() -> None:
    shelf = Shelf()
    with Server(times("own", 9), http="127.0.0.1:0", grpc=None, control=shelf) as server:
        shelf.server = server
        assert asked(server, "secret") == (403, {"error": "not for you"})
        assert asked(server, "late") == (503, {"error": "come back later"})
        assert asked(server, "none", "unload") == (404, {"error": "the server was given no model 'none'"})
        # What is no error of ours is nobody's business.
        assert asked(server, "broken") == (500, {"error": "model 'broken': the server failed to load it"})
        assert asked(server, "a")[0] == 200
        assert factor(server, "own") == 9


def test_files_are_refused_unless_they_are_let_in() -> None:
    shelf = Shelf()
    with Server.empty(http="127.0.0.1:0", grpc=None, control=shelf) as server:
        shelf.server = server
        status, said = asked(server, "a", body=b'{"parameters": {"config": "{}", "file:1/a": "YWJj"}}')
        assert status == 501
        assert said == {"error": "load parameters 'file:...' are refused: the server was not started with load_files"}
        assert shelf.asked == []


def test_a_control_and_folders_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^control: models come from the folders of `repository`, or by a control"):
        Server.empty(repository=tmp_path, control=Shelf())


def test_a_server_with_a_control_may_begin_empty() -> None:
    shelf = Shelf()
    with Server(http="127.0.0.1:0", grpc=None, control=shelf) as server, pytest.raises(NotFound):
        server.remove("a")
