"""Models as PyTriton's `bind` makes them, behind a whole server without a socket."""

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
    pytest.fail(f"the server was to stop: {error!r}")


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
    """A client of model `m`; `config` are the fields of its `ModelConfig`."""
    binding = Binding.of("m", infer_func, inputs, outputs, 1, ModelConfig(**config), strict)
    with Client(bind(binding, unrecoverable)) as client:
        yield client


def rows(*values: float) -> Array:
    """A batch of one number each, as X has them."""
    return np.array(values, np.float32).reshape(-1, 1)


def streamed(client: Client, value: float) -> list[Any]:
    """Every answer to a request of one row, as a list of its outputs."""
    answered = client.post("/v2/models/m/generate_stream", json.dumps({"x": [value]}))
    assert answered.status == 200
    events = [json.loads(line[6:]) for line in answered.body.decode().splitlines() if line.startswith("data: ")]
    return [event["y"] if isinstance(event["y"], list) else [event["y"]] for event in events]


class Together:
    """Has requests share a call: the first one is held until all others wait.

    Args:
        infer_func: Is called with lists of requests.
    """

    def __init__(self, infer_func: Callable[[list[Any]], Any]) -> None:
        self.gate, self.sizes = Gate(), list[int]()
        self._plain = infer_func

    def __call__(self, requests: list[Any]) -> Any:
        self.sizes.append(len(requests))
        if len(self.sizes) == 1:
            self.gate.enter()
        return self._plain(requests)

    def ask(self, client: Client, asked: list[dict[str, Any]], **more: Any) -> list[Any]:
        """What came of each request: its outputs, or the exception. All but the first have shared a call."""
        return ask_together(client, self.gate, asked, **more)


def ask_together(client: Client, gate: Gate, asked: list[dict[str, Any]], **more: Any) -> list[Any]:
    """As `Together.ask`, for a callable that enters the gate when it is first called."""
    one = lambda inputs: lambda: client.infer("m", inputs, **more)  # noqa: E731
    futures = at_once([one(asked[0])])
    gate.await_entered()
    for place, inputs in enumerate(asked[1:], 1):
        futures += at_once([one(inputs)])
        until(lambda place=place: waiting(client) == place, f"{place} requests to wait")
    gate.open()
    return [future.exception() or future.result() for future in futures]


def waiting(client: Client) -> int:
    """How many requests wait for model `m`."""
    found = re.search(r'^penstock_queue_depth\{[^}]*model="m"[^}]*\} (\d+)', client.get("/metrics").body.decode(), re.M)
    return int(found[1]) if found else -1


__all__ = ["Together", "X", "Y", "ask_together", "bound", "rows", "streamed"]
