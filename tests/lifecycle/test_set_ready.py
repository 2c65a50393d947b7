"""Models made unready by `Server.set_ready`, as clients see them."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient

from http_by_hand import get, infer, post
from penstock import Model, NotFound, Server, Tensor, model
from waiting import until

PORTS = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}
X = np.array([1], np.float32)


def echo(name: str = "m", version: str = "1") -> Model[..., Any]:
    shape = [Tensor("x", np.float32, [1])], [Tensor("y", np.float32, [1])]
    return model(lambda x: x, name=name, version=version, inputs=shape[0], outputs=shape[1])


def ready(server: Server, path: str = "m") -> tuple[int, str]:
    response = get(server.http_url, f"/v2/models/{path}/ready")
    return response.status, response.body.decode()


def row(server: Server, version: str = "1") -> dict[str, str]:
    rows = post(server.http_url, "/v2/repository/index", b"{}").json()
    match: dict[str, str] = next(one for one in rows if one["version"] == version)
    return match


def test_unready_model_refuses_with_the_reason_until_ready() -> None:
    with Server(echo(), **PORTS) as server:
        server.set_ready("m", False, "its weights are fetched")
        refused = infer(server.http_url, "m", {"x": X})
        assert (refused.status, refused.json()) == (503, {"error": "model 'm' is not ready: its weights are fetched"})
        assert refused.headers["retry-after"] == "1"
        status, body = ready(server)
        assert status == 503
        assert "its weights are fetched" in body
        assert row(server) == {
            "name": "m",
            "version": "1",
            "state": "UNAVAILABLE",
            "reason": "its weights are fetched",
        }
        assert get(server.http_url, "/v2/health/ready").status == 200
        server.set_ready("m", True)
        assert infer(server.http_url, "m", {"x": X}).status == 200
        assert ready(server)[0] == 200
        assert row(server)["state"] == "READY"


def test_unready_without_a_reason_adds_none() -> None:
    with Server(echo(), **PORTS) as server:
        server.set_ready("m", False)
        refused = infer(server.http_url, "m", {"x": X})
        assert (refused.status, refused.json()) == (503, {"error": "model 'm' is not ready"})


def test_grpc_readiness_and_health_watch_follow_set_ready() -> None:
    with Server(echo(), **PORTS) as server, InferenceServerClient(server.grpc_url) as client:
        assert client.is_model_ready("m")
        statuses: list[int] = []
        with grpc.insecure_channel(server.grpc_url) as channel:
            watch = channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                request_serializer=lambda name: b"\x0a" + bytes([len(name)]) + name,
                response_deserializer=lambda body: body[1] if body else 0,
            )
            call = watch(b"m")
            statuses.append(next(call))
            server.set_ready("m", False, "later")
            statuses.append(next(call))
            assert not client.is_model_ready("m")
            server.set_ready("m", True)
            statuses.append(next(call))
            call.cancel()
        assert statuses == [1, 2, 1]
        assert client.is_model_ready("m")


def test_set_ready_applies_to_one_or_all_versions() -> None:
    with Server(echo(version="1"), echo(version="2"), **PORTS) as server:
        server.set_ready("m", False, "new", version="2")
        assert (ready(server)[0], ready(server, "m/versions/2")[0], ready(server, "m/versions/1")[0]) == (200, 503, 200)
        # The highest ready version answers.
        assert infer(server.http_url, "m", {"x": X}).json()["model_version"] == "1"
        server.set_ready("m", False)
        assert infer(server.http_url, "m", {"x": X}).status == 503
        server.set_ready("m", True)
        assert infer(server.http_url, "m", {"x": X}).json()["model_version"] == "2"


def test_reloaded_model_is_ready() -> None:
    with Server(echo(), **PORTS) as server:
        server.set_ready("m", False, "old")
        server.reload(lambda: [echo()])
        until(lambda: ready(server)[0] == 200)
        assert infer(server.http_url, "m", {"x": X}).status == 200


def test_set_ready_before_start_applies_from_start() -> None:
    server = Server(echo(), **PORTS)
    server.set_ready("m", False, "not yet")
    with server:
        assert ready(server)[0] == 503
        server.set_ready("m", True)
        assert ready(server)[0] == 200


def test_set_ready_of_an_unknown_model_raises() -> None:
    with Server(echo(), **PORTS) as server:
        with pytest.raises(NotFound, match="unknown model 'missing'"):
            server.set_ready("missing", False)
        with pytest.raises(NotFound, match="model 'm' has no version '7'"):
            server.set_ready("m", False, version="7")
    other = Server(echo(), **PORTS)
    other.set_ready("missing", False)
    with pytest.raises(NotFound, match="unknown model 'missing'"):
        other.start()
