"""Displacement: a full queue refuses a waiting request in favour of one of a higher priority."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from http_by_hand import infer, metric_at
from penstock import Client, Overloaded, Queueing, Server, Tensor, model
from waiting import Gate, at_once, until


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_higher_priority_displaces_a_lower_one(protocol: str) -> None:
    gate = Gate()

    @model(
        inputs=[Tensor("x", np.float32, [-1])],
        outputs=[Tensor("y", np.float32, [-1])],
        queueing=Queueing(priorities=2),
        max_queue=1,
    )
    def ranked(x: Any) -> Any:
        gate.enter()
        return x

    with Server(ranked, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        url = server.http_url if protocol == "http" else f"grpc://{server.grpc_url}"

        def call(priority: int) -> str:
            with Client(url, retries=0) as client:
                try:
                    client.infer("ranked", x=np.ones(1, np.float32), parameters={"priority": priority})
                except Overloaded as error:
                    return str(error)
            return "ok"

        futures = at_once([lambda: call(2)])
        gate.await_entered()
        futures += at_once([lambda: call(2)])
        until(lambda: metric_at(server.http_url, "penstock_queue_depth", model="ranked") == 1, "the low one to wait")
        futures += at_once([lambda: call(1)])
        refused = futures[1].result(timeout=20)
        assert "model 'ranked' has a full queue, and a request of a higher priority arrived" in refused
        # An equal one is refused itself.
        assert "has its maximum of 1 requests waiting" in call(1)
        gate.open()
        assert [futures[0].result(timeout=20), futures[2].result(timeout=20)] == ["ok", "ok"]
        assert metric_at(server.http_url, "penstock_displaced_total", model="ranked") == 1
        infer(server.http_url, "ranked", {"x": np.ones(1, np.float32)})
