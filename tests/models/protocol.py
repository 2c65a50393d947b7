"""The fixture models of the protocol's conformance cases, and the gate that holds `slow`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from penstock import Batching, Context, NotFound, Queueing, Sequences, Tensor, model

DATATYPES = (
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "BF16",
    "FP32",
    "FP64",
    "BYTES",
)

X = Tensor("x", np.float32, [-1])
Y = Tensor("y", np.float32, [-1])


class Gate:
    """Holds the handler of `slow` until a test opens it, and records the values seen."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Closes the gate and clears its records."""
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()
        self.cancelled = threading.Event()
        self.seen: list[float] = []

    def await_entered(self) -> None:
        """Waits for one more call."""
        assert self.entered.acquire(timeout=20), "no handler reached the gate"

    def pass_through(self, value: float, context: Context) -> None:
        """Called by the handler: returns when the gate is opened or every client has disconnected."""
        entered, opened, cancelled = self.entered, self.opened, self.cancelled
        self.seen.append(value)
        entered.release()
        for _ in range(4000):
            if opened.wait(0.005):
                return
            if context.cancelled:
                cancelled.set()
                return
        raise TimeoutError("the gate was never opened")


GATE = Gate()


@model(
    inputs=[Tensor("a", np.float32, [4]), Tensor("b", np.float32, [4])],
    outputs=[Tensor("sum", np.float32, [4])],
    batching=Batching(max_size=8),
)
def add(a: Any, b: Any) -> Any:
    return a + b


@model(
    inputs=[Tensor("x", np.float32, [-1])],
    outputs=[Tensor("y", np.float32, [-1])],
    batching=Batching(max_size=8),
)
def rows(x: Any) -> Any:
    return x


LABELS = ["cat", "a dog", "bird"]


@model(
    inputs=[Tensor("x", np.float32, [-1])],
    outputs=[Tensor("y", np.float32, [-1], labels=LABELS)],
    batching=Batching(max_size=8),
)
def scores(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", bytes, [-1])], outputs=[Tensor("y", bytes, [-1]), Tensor("size", np.int64, [-1])])
def sized(x: Any) -> Any:
    return x, np.array([len(text) for text in x], np.int64)


def identity(datatype: str) -> Any:
    """`ident_<datatype>`: returns `x`, of any length, as `y`."""
    return model(
        lambda x: x,
        name=f"ident_{datatype}",
        inputs=[Tensor("x", datatype, [-1])],
        outputs=[Tensor("y", datatype, [-1])],
    )


@model(inputs=[Tensor("x", bytes, [-1])], outputs=[Tensor("y", bytes, [-1])])
def echo_s(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", bytes, [1])], outputs=[Tensor("y", bytes, [1])])
def bytes_one(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", np.float32, [])], outputs=[Tensor("y", np.float32, [])])
def scalar(x: Any) -> Any:
    return x


@model(inputs=[X], outputs=[Tensor("o1", np.float32, [-1]), Tensor("o2", np.int64, [-1])])
def two_out(x: Any) -> Any:
    return x * np.float32(2), x.astype(np.int64)


@model(inputs=[X], outputs=[Y], max_queue=1)
def slow(x: Any, ctx: Context) -> Any:
    GATE.pass_through(float(x[0]), ctx)
    return x


@model(inputs=[X], outputs=[Y])
def boom(x: Any) -> Any:
    raise RuntimeError(f"a secret of the model, {x}")


@model(inputs=[X], outputs=[Y])
def typed_err(x: Any) -> Any:
    raise NotFound(f"no entry for {float(x[0])}")


@model(inputs=[X], outputs=[Tensor("y", np.float16, [-1])])
def half(x: Any) -> Any:
    return x.astype(np.float16)


@model(inputs=[X], outputs=[Tensor("y", np.float32, [3])])
def nan(x: Any) -> Any:
    return np.array([np.nan, np.inf, -np.inf], np.float32)


@model(inputs=[X], outputs=[Tensor("y", bytes, [1])])
def nonutf8(x: Any) -> Any:
    return np.array([b"\xff"], object)


@model(name="ver", version=1, inputs=[X], outputs=[Tensor("version", np.int64, [1])])
def ver_1(x: Any) -> Any:
    return np.array([1])


@model(name="ver", version=2, inputs=[X], outputs=[Tensor("version", np.int64, [1])])
def ver_2(x: Any) -> Any:
    return np.array([2])


@model(inputs=[X], outputs=[Y])
def parameters(x: Any, ctx: Context) -> Any:
    """Returns the request's parameters, and the Python type of each."""
    for name, value in ctx.parameters.items():
        ctx.set_parameter(name, value)
        ctx.set_parameter(f"type_of_{name}", type(value).__name__)
    return x


@model(inputs=[X], outputs=[Tensor("y", np.float32, [-1])])
def wrong_dtype(x: Any) -> Any:
    return x.astype(np.float64)


@model(inputs=[X], outputs=[Tensor("y", np.float32, [2])])
def wrong_shape(x: Any) -> Any:
    return np.zeros(3, np.float32)


@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("total", np.float32, [1]), Tensor("steps", np.int32, [1])],
    batching=Batching(max_size=4),
    sequences=Sequences(idle_timeout=30.0, max_active=8),
)
def stateful(x: Any, ctx: Context) -> Any:
    """Adds up the values of a sequence, and counts its requests."""
    totals, steps = np.empty_like(x), np.empty(x.shape, np.int32)
    for row, request in enumerate(ctx.requests):
        assert request.sequence is not None
        state = request.sequence.state
        state["total"] = state.get("total", 0.0) + float(x[row, 0])
        state["steps"] = state.get("steps", 0) + 1
        totals[row], steps[row] = state["total"], state["steps"]
    return totals, steps


@model(inputs=[X], outputs=[Y], queueing=Queueing(priorities=3, default_priority=2))
def ranked(x: Any, ctx: Context) -> Any:
    GATE.pass_through(float(x[0]), ctx)
    return x


@model(inputs=[X], outputs=[Y], queueing=Queueing(timeout=0.3))
def impatient(x: Any, ctx: Context) -> Any:
    GATE.pass_through(float(x[0]), ctx)
    return x


MODELS = (
    add,
    rows,
    scores,
    sized,
    *(identity(datatype) for datatype in DATATYPES),
    echo_s,
    bytes_one,
    scalar,
    two_out,
    slow,
    boom,
    typed_err,
    half,
    nan,
    nonutf8,
    ver_1,
    ver_2,
    parameters,
    wrong_dtype,
    wrong_shape,
    stateful,
    ranked,
    impatient,
)
