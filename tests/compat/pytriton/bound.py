"""Bound PyTriton models behind a complete server without a socket."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock.compat.pytriton._bind import bind
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.testing import Client
from waiting import Gate, at_once, until

Array = np.ndarray[Any, Any]

X = Tensor(name="x", dtype=np.float32, shape=(-1,))
Y = Tensor(name="y", dtype=np.float32, shape=(-1,))


def unexpected(error: BaseException) -> None:
    pytest.fail(f"unexpected unrecoverable error: {error!r}")


@contextmanager
def bound(
    infer_func: Any,
    *,
    inputs: tuple[Tensor, ...] = (X,),
    outputs: tuple[Tensor, ...] = (Y,),
    strict: bool = False,
    unrecoverable: Callable[[BaseException], None] = unexpected,
    **config: Any,
) -> Iterator[Client]:
    """Returns a client of model `m`; `config` holds fields of its `ModelConfig`."""
    binding = Binding.of("m", infer_func, inputs, outputs, 1, ModelConfig(**config), strict)
    with Client(bind(binding, unrecoverable)) as client:
        yield client


def rows(*values: float) -> Array:
    """Returns a batch with one number in each row, for X."""
    return np.array(values, np.float32).reshape(-1, 1)


def stream_outputs(client: Client, value: float) -> list[Any]:
    """Returns the outputs of each response to a request of one row."""
    response = client.post("/v2/models/m/generate_stream", json.dumps({"x": [value]}))
    assert response.status == 200
    events = [json.loads(line[6:]) for line in response.body.decode().splitlines() if line.startswith("data: ")]
    return [event["y"] if isinstance(event["y"], list) else [event["y"]] for event in events]


class SharedCall:
    """Makes requests share a call: the first one blocks until all others wait.

    Args:
        infer_func: Callable of lists of requests.
    """

    def __init__(self, infer_func: Callable[[list[Any]], Any]) -> None:
        self.gate, self.sizes = Gate(), list[int]()
        self._plain = infer_func

    def __call__(self, requests: list[Any]) -> Any:
        self.sizes.append(len(requests))
        if len(self.sizes) == 1:
            self.gate.enter()
        return self._plain(requests)

    def infer(self, client: Client, requests: list[dict[str, Any]], **options: Any) -> list[Any]:
        """Returns the outputs or the exception of each request. All but the first share a call."""
        return infer_together(client, self.gate, requests, **options)


def infer_together(client: Client, gate: Gate, requests: list[dict[str, Any]], **options: Any) -> list[Any]:
    """Same as `SharedCall.infer`, for a callable that enters the gate in its first call."""
    one = lambda inputs: lambda: client.infer("m", inputs, **options)  # noqa: E731
    futures = at_once([one(requests[0])])
    gate.await_entered()
    for index, inputs in enumerate(requests[1:], 1):
        futures += at_once([one(inputs)])
        until(lambda index=index: waiting(client) == index, f"{index} requests to wait")
    gate.open()
    return [future.exception() or future.result() for future in futures]


def waiting(client: Client) -> int:
    """Returns the number of waiting requests of model `m`."""
    match = re.search(r'^penstock_queue_depth\{[^}]*model="m"[^}]*\} (\d+)', client.get("/metrics").body.decode(), re.M)
    return int(match[1]) if match else -1


__all__ = ["SharedCall", "X", "Y", "bound", "infer_together", "rows", "stream_outputs"]
