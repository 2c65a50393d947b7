"""`Batching(target_p99=...)`: batches and admission bounded by a latency target."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, metric_at
from penstock import Batching, Dim, Server, Tensor, model
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ROW = np.ones((1, 1), np.float32)


def test_target_p99_ends_a_long_max_delay() -> None:
    served = model(lambda x: x, name="m", batching=Batching(max_delay=3600.0, target_p99=0.05), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        url = server.http_url
        for _ in range(12):
            assert infer(url, "m", {"x": ROW}).status == 200
        assert metric_at(url, "penstock_batches_total", reason="target") == 12
        (report,) = get(url, "/debug/batching").json()["models"]
        config = get(url, "/v2/models/m/config").json()
    assert report["target_p99"] == 0.05
    assert {decision["reason"] for decision in report["decisions"]} == {"target"}
    assert config["parameters"]["target_p99_microseconds"] == {"string_value": "50000"}


def test_late_requests_are_rejected_only_with_reject_late() -> None:
    for reject_late in (False, True):
        block = list[Gate]()

        def handle(x: Any, block: list[Gate] = block) -> Any:
            time.sleep(0.02)
            if block:
                block[0].enter()
            return x

        batching = Batching(max_size=1, target_p99=timedelta(milliseconds=30), reject_late=reject_late)
        with Server(model(handle, name="m", batching=batching, **ONE), http="127.0.0.1:0", grpc=None) as server:
            url = server.http_url

            def send(url: str = url) -> Any:
                return infer(url, "m", {"x": ROW})

            # The server learns that a batch takes 20 ms.
            assert [send().status for _ in range(10)] == [200] * 10
            block.append(Gate())
            futures = at_once([send])
            block[0].await_entered()
            # The first queued request is always accepted.
            futures += at_once([send])
            until(lambda url=url: metric_at(url, "penstock_queue_depth") == 1)
            third = at_once([send])[0]
            if reject_late:
                response = third.result()
                assert response.status == 429
                assert "model 'm' would answer after" in response.error()
                assert response.error().endswith("ms at best, its target is 30ms")
                assert int(response.headers["retry-after"]) >= 1
            else:
                until(lambda url=url: metric_at(url, "penstock_queue_depth") == 2)
                futures.append(third)
            block[0].open()
            assert [future.result().status for future in futures] == [200] * len(futures)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target_p99": 0}, "target_p99 must be above 0 and at most 3600 seconds, not 0"),
        ({"target_p99": True}, "target_p99 must be above 0"),
        ({"target_p99": "1s"}, "target_p99 must be above 0"),
        ({"reject_late": True}, "reject_late goes by target_p99, which is not given"),
        (
            {"target_p99": 1, "reject_late": True, "cost": Dim("x"), "max_cost": 1},
            "reject_late goes by rows; it does not go with cost",
        ),
    ],
)
def test_invalid_targets_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batching(**options)
