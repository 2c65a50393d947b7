"""`Batching(max_duration=...)`: batches bounded by their predicted duration."""

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
def test_batches_contain_the_rows_that_fit_max_duration(seconds: float | timedelta, sizes: list[int]) -> None:
    gate, batch_sizes = Gate(), list[int]()

    def handle(x: Any) -> Any:
        batch_sizes.append(len(x))
        if len(batch_sizes) == 13:
            gate.enter()
        return x

    batching = Batching(max_duration=seconds, hold=False)
    served = model(handle, name="m", batching=batching, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        url = server.http_url

        def send() -> Any:
            return infer(url, "m", {"x": ROW})

        assert [send().status for _ in range(12)] == [200] * 12
        futures = at_once([send])
        gate.await_entered()
        futures += at_once([send] * 10)
        until(lambda: metric_at(url, "penstock_queue_depth") == 10)
        gate.open()
        assert [future.result().status for future in futures] == [200] * 11
        assert batch_sizes[12:] == sizes
        # There is no estimate before the first batch.
        bounded = 1 if sizes[-1] == 10 else 23
        assert metric_at(url, "penstock_batches_total", reason="duration") == bounded
        (report,) = get(url, "/debug/batching").json()["models"]
        config = get(url, "/v2/models/m/config").json()
    assert report["max_duration"] == batching.max_duration
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
def test_invalid_max_duration_is_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batching(**options)
