"""Debug endpoint of batching: recent decisions, and settings that clients may change at run time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from http_by_hand import HttpResponse, get, infer, metric_at, post
from penstock import Batching, BatchTooLarge, Queueing, Server, Tensor, model
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ROW = np.ones((1, 1), np.float32)


def change(url: str, name: str = "m", headers: dict[str, str] | None = None, **settings: Any) -> HttpResponse:
    return post(url, f"/v2/models/{name}/batching", json.dumps(settings).encode(), headers)


def report(url: str) -> dict[str, Any]:
    response = get(url, "/debug/batching")
    assert response.status == 200, response.body
    (decision,) = response.json()["models"]
    return dict(decision)


def test_batching_debug_is_off_by_default() -> None:
    served = model(lambda x: x, name="m", batching=Batching(), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        response = get(server.http_url, "/debug/batching")
        assert (response.status, response.error()) == (
            501,
            "/debug/batching is off, as the server's setting 'batching_debug' has it",
        )
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        assert report(server.http_url)["settings"]["max_size"] == 64
        refused = change(server.http_url, max_size=4)
        assert (refused.status, refused.error()) == (
            501,
            "changing how models batch is off, as the server's setting 'batching_debug' has it",
        )


def test_report_lists_recent_decisions_with_reasons() -> None:
    served = model(lambda x: x, name="m", batching=Batching(max_size=8), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        url = server.http_url
        for _ in range(70):
            assert infer(url, "m", {"x": ROW}).status == 200
        batching = report(url)
    assert (batching["name"], batching["version"]) == ("m", "1")
    assert len(batching["decisions"]) == 64
    for decision in batching["decisions"]:
        assert (decision["rows"], decision["requests"]) == (1, 1)
        assert decision["reason"] in ("idle", "returned", "hold-expired")
        assert 0 <= decision["waited_seconds"] < 60
        assert 0 < decision["duration_seconds"] < 60
    times = [decision["time"] for decision in batching["decisions"]]
    assert times == sorted(times)
    assert batching["learned"]["fixed_seconds"] > 0
    assert batching["learned"]["rows_per_second"] > 0
    assert batching["learned"]["max_size"] is None
    assert batching["waiting"] == {"requests": 0, "rows": 0, "bytes": 0}


def test_settings_change_while_serving() -> None:
    gate, sizes = Gate(), list[int]()

    def handle(x: Any) -> Any:
        sizes.append(len(x))
        if len(sizes) == 1:
            gate.enter()
        return x

    served = model(handle, name="m", batching=Batching(max_size=8), queueing=Queueing(max_rows=100), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="change") as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", {"x": ROW})])
        gate.await_entered()
        futures += at_once([lambda: infer(url, "m", {"x": ROW})] * 4)
        until(lambda: metric_at(url, "penstock_queue_depth") == 4)
        assert report(url)["waiting"] == {"requests": 4, "rows": 4, "bytes": 16}
        assert report(url)["computing"] == 1
        response = change(url, max_size=2, hold=False, max_queue=5, max_queue_rows=None, max_queue_bytes=19)
        assert response.status == 200, response.body
        settings = {
            "max_size": 2,
            "max_delay": 0.0,
            "hold": False,
            "max_queue": 5,
            "max_queue_rows": None,
            "max_queue_bytes": 19,
        }
        assert response.json()["settings"] == report(url)["settings"] == settings
        refused = infer(url, "m", {"x": ROW})
        text = "model 'm' has 16 of its maximum of 19 bytes waiting, and the request has 4"
        assert (refused.status, refused.error()) == (429, text)
        gate.open()
        assert [future.result().status for future in futures] == [200] * 5
        assert sizes == [1, 2, 2]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_size": 9}, "'max_size' is 9, model 'm' has batches of 1 to 8 rows"),
        ({"max_size": 0}, "'max_size' is 0, expected an integer of 1 or more"),
        ({"max_delay": -1}, "'max_delay' is -1, expected 0 to 3600 seconds"),
        ({"max_queue": None}, "'max_queue' is null, expected an integer of 1 or more"),
        ({"max_queue": 1, "nonsense": 1}, "unexpected knob 'nonsense', expected max_size, max_delay, hold"),
    ],
)
def test_invalid_settings_change_nothing(settings: dict[str, Any], text: str) -> None:
    served = model(lambda x: x, name="m", batching=Batching(max_size=8), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="change") as server:
        before = report(server.http_url)["settings"]
        refused = change(server.http_url, **settings)
        assert refused.status == 400
        assert refused.error().startswith(text)
        assert report(server.http_url)["settings"] == before
        assert change(server.http_url, name="other").status == 404
        cross_origin = change(server.http_url, headers={"origin": "http://example.com"}, max_size=1)
        assert cross_origin.status == 403


def test_unbatched_model_has_only_queue_bounds() -> None:
    served = model(lambda x: x, name="m", **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="change") as server:
        refused = change(server.http_url, max_delay=1)
        assert (refused.status, refused.error()) == (
            400,
            "'max_delay' has no meaning, model 'm' does not join requests",
        )
        assert change(server.http_url, max_queue=3).json()["settings"]["max_queue"] == 3


def test_batching_debug_obeys_restricted_access() -> None:
    served = model(lambda x: x, name="m", batching=Batching(max_size=8), **ONE)
    rules = "model-repository:admin-key=hush"
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="change", restricted_access=rules) as server:
        assert change(server.http_url, max_size=2).status == 403
        assert change(server.http_url, headers={"admin-key": "hush"}, max_size=2).status == 200


def test_size_learned_from_batch_too_large_is_reported_and_reset() -> None:
    gate, calls = Gate(), list[int]()

    def handle(x: Any) -> Any:
        calls.append(len(x))
        if len(calls) == 1:
            gate.enter()
        if len(x) > 3:
            raise BatchTooLarge("no room")
        return x

    served = model(handle, name="m", batching=Batching(max_size=8, retry_on_oom=True), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="change") as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", {"x": ROW})])
        gate.await_entered()
        futures += at_once([lambda: infer(url, "m", {"x": ROW})] * 6)
        until(lambda: metric_at(url, "penstock_queue_depth") == 6)
        gate.open()
        assert [future.result().status for future in futures] == [200] * 7
        assert calls == [1, 6, 3, 3]
        assert report(url)["learned"]["max_size"] == report(url)["settings"]["max_size"] == 3
        assert change(url, max_size=8).json()["learned"]["max_size"] is None
