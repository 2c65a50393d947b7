"""A model that holds its first call, so that a test controls the queue behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from http_by_hand import metric
from penstock import Batching, Model, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until


class Held:
    """A model whose first call waits for the test, and which records the rows of each call."""

    def __init__(self, batching: Batching | None, **options: Any) -> None:
        self.gate = Gate()
        self.calls: list[list[float]] = []
        settings: dict[str, Any] = {
            "inputs": [Tensor("x", np.float32, [-1])],
            "outputs": [Tensor("y", np.float32, [-1])],
            **options,
        }
        self.model: Model[..., Any] = model(self.handle, name="m", batching=batching, **settings)

    def handle(self, x: Any) -> Any:
        self.calls.append(x[:, 0].tolist())
        if len(self.calls) == 1:
            self.gate.enter()
        return x * 10

    @property
    def sizes(self) -> list[int]:
        return [len(call) for call in self.calls]

    def run(self, rows: list[int], *, first: int = 1, widths: list[int] | None = None) -> list[Any]:
        """Starts one request, queues the others behind it one by one, and opens the gate."""
        widths = widths or [1] * len(rows)
        with Client(self.model) as client:

            def request(value: int, count: int, width: int) -> Callable[[], Any]:
                x = np.full((count, width), value, np.float32)
                return lambda: client.infer("m", {"x": x})["y"]

            futures = at_once([request(0, first, widths[0])])
            self.gate.await_entered()
            for index, (count, width) in enumerate(zip(rows, widths, strict=True)):
                futures += at_once([request(index + 1, count, width)])

                def is_queued(wanted: int = index + 1) -> bool:
                    return metric(client.get("/metrics").body.decode(), "penstock_queue_depth") == wanted

                until(is_queued)
            self.gate.open()
            responses = [future.result() for future in futures]
        for index, (response, count, width) in enumerate(
            zip(responses, [first, *rows], [widths[0], *widths], strict=True)
        ):
            assert response.tolist() == [[index * 10] * width] * count, "a response went to another client"
        return responses
