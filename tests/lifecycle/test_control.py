"""Models that clients load and unload through a control written by the user."""

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
    """A control with models of almost any name; each load has a greater factor."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.requests: list[tuple[str, str | None]] = []

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        assert not files
        self.requests.append((name, config))
        if name == "secret":
            raise Forbidden("not for you")
        if name == "late":
            raise Unavailable("come back later")
        if name == "broken":
            raise OSError("/secret/place")
        assert self.server is not None
        self.server.add(times(name, len(self.requests)), replace=True)

    def unload(self, name: str) -> None:
        assert self.server is not None
        self.server.remove(name)


def send_request(server: Server, name: str, action: str = "load", body: bytes = b"{}") -> tuple[int, Any]:
    response = post(server.http_url, f"/v2/repository/models/{name}/{action}", body)
    return response.status, response.json() if response.body else None


def factor(server: Server, name: str) -> float | int:
    response = infer(server.http_url, name, {"x": X})
    return float(response.array("y")[0]) if response.status == 200 else response.status


def test_clients_load_and_unload_models_of_a_custom_control() -> None:
    shelf = Shelf()
    with Server.empty(http="127.0.0.1:0", grpc="127.0.0.1:0", control=shelf) as server:
        shelf.server = server
        assert factor(server, "a") == 404
        assert send_request(server, "a")[0] == 200
        assert factor(server, "a") == 1
        # A second load replaces the model.
        assert send_request(server, "a", body=b'{"parameters": {"config": "{}"}}')[0] == 200
        assert (factor(server, "a"), shelf.requests) == (2, [("a", None), ("a", "{}")])
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="b"))
            assert factor(server, "b") == 3
            stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="b"))
            assert factor(server, "b") == 404
            with pytest.raises(grpc.RpcError) as refused:
                stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="b"))
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert send_request(server, "a", "unload")[0] == 200
        assert factor(server, "a") == 404


def test_exceptions_of_the_control_map_to_error_responses() -> None:
    shelf = Shelf()
    with Server(times("own", 9), http="127.0.0.1:0", grpc=None, control=shelf) as server:
        shelf.server = server
        assert send_request(server, "secret") == (403, {"error": "not for you"})
        assert send_request(server, "late") == (503, {"error": "come back later"})
        assert send_request(server, "none", "unload") == (404, {"error": "the server was given no model 'none'"})
        # Other exceptions are not shown to clients.
        assert send_request(server, "broken") == (500, {"error": "model 'broken': the server failed to load it"})
        assert send_request(server, "a")[0] == 200
        assert factor(server, "own") == 9


def test_load_files_are_refused_by_default() -> None:
    shelf = Shelf()
    with Server.empty(http="127.0.0.1:0", grpc=None, control=shelf) as server:
        shelf.server = server
        status, body = send_request(server, "a", body=b'{"parameters": {"config": "{}", "file:1/a": "YWJj"}}')
        assert status == 501
        assert body == {"error": "load parameters 'file:...' are refused: the server was not started with load_files"}
        assert shelf.requests == []


def test_control_and_repository_are_mutually_exclusive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^control: models come from the folders of `repository`, or by a control"):
        Server.empty(repository=tmp_path, control=Shelf())


def test_server_with_a_control_may_start_empty() -> None:
    shelf = Shelf()
    with Server(http="127.0.0.1:0", grpc=None, control=shelf) as server, pytest.raises(NotFound):
        server.remove("a")
