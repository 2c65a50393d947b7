"""A time that batches may be expected to take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, metric_at
from penstock import Batching, Dim, Server, Tensor, model
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ROW = np.ones((1, 1), np.float32)


@pytest.mark.parametrize(("seconds", "sizes"), [(3600.0, [1, 10]), (timedelta(microseconds=1), [1] * 11)])
def test_batches_have_the_rows_that_fit(seconds: float | timedelta, sizes: list[int]) -> None:
    gate, seen = Gate(), list[int]()

    def handle(x: Any) -> Any:
        seen.append(len(x))
        if len(seen) == 13:
            gate.enter()
        return x

    batching = Batching(max_duration=seconds, hold=False)
    served = model(handle, name="m", batching=batching, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        url = server.http_url

        def ask() -> Any:
            return infer(url, "m", {"x": ROW})

        assert [ask().status for _ in range(12)] == [200] * 12
        futures = at_once([ask])
        gate.await_entered()
        futures += at_once([ask] * 10)
        until(lambda: metric_at(url, "penstock_queue_depth") == 10)
        gate.open()
        assert [future.result().status for future in futures] == [200] * 11
        assert seen[12:] == sizes
        # Nothing is known before the first batch.
        bounded = 1 if sizes[-1] == 10 else 23
        assert metric_at(url, "penstock_batches_total", reason="duration") == bounded
        (shown,) = get(url, "/debug/batching").json()["models"]
        config = get(url, "/v2/models/m/config").json()
    assert shown["max_duration"] == batching.max_duration
    microseconds = f"{round((batching.max_duration or 0) * 1e6)}"
    assert config["parameters"]["max_duration_microseconds"] == {"string_value": microseconds}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_duration": 0}, "max_duration must be above 0 and at most 3600 seconds, not 0"),
        ({"max_duration": "1s"}, "max_duration must be above 0"),
        ({"max_duration": 1, "cost": Dim("x"), "max_cost": 1}, "max_duration goes by rows; it does not go with cost"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batching(**options)
