"""Models for the tests of the native client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock import Batching, Context, Forbidden, HandlerError, Overloaded, Tensor, Threads, Unavailable, model

DATATYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "BF16": np.float32,
    "FP32": np.float32,
    "FP64": np.float64,
}


def _same(datatype: str) -> Any:
    tensors = {"inputs": [Tensor("x", datatype, [-1, -1])], "outputs": [Tensor("y", datatype, [-1, -1])]}
    return model(name=f"same_{datatype}", **tensors)(lambda x: x)


@model(inputs=[Tensor("x", np.float32, [3])], outputs=[Tensor("y", np.float32, [3])], batching=Batching(8))
def double(x: Any) -> Any:
    return x * 2


@model(
    inputs=[Tensor("a", np.float32, [-1]), Tensor("b", np.float32, [-1])],
    outputs=[Tensor("sum", np.float32, [-1]), Tensor("difference", np.float32, [-1])],
)
def arithmetic(a: Any, b: Any) -> Any:
    return a + b, a - b


@model
def upper(text: str) -> str:
    return text.upper()


@model
def add(a: int, b: float) -> float:
    return a + b


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def large(x: Any) -> Any:
    return x + 1


@model(inputs=[Tensor("seconds", np.float64, [])], outputs=[Tensor("y", np.float64, [])])
def slow(seconds: Any) -> Any:
    time.sleep(float(seconds))
    return seconds


@model(inputs=[Tensor("kind", str, [])], outputs=[Tensor("y", str, [])])
def fails(kind: Any) -> Any:
    kinds = {"overloaded": Overloaded, "forbidden": Forbidden, "handler": HandlerError, "unavailable": Unavailable}
    raise kinds[str(kind.item())](f"no: {kind.item()}")


@model(inputs=[Tensor("x", np.int32, [])], outputs=[Tensor("y", str, [])])
def seen(x: Any, ctx: Context) -> Any:
    """The request context that the handler receives."""
    ctx.set_parameter("answered", True)
    ctx.set_parameter("share", 0.5)
    deadline = ctx.deadline
    context = {
        "id": ctx.request_id,
        "parameters": dict(ctx.parameters),
        "header": ctx.headers.get("x-mine"),
        "has_deadline": deadline is not None,
        "version": ctx.model_version,
    }
    return repr(context)


class Counter:
    """A counter that models increment."""

    def __init__(self) -> None:
        self.value = 0


STARTED, STOPPED = Counter(), Counter()
N = {"inputs": [Tensor("n", np.int32, [])], "outputs": [Tensor("y", np.int32, [])]}


@model(**N)
def count(n: Any) -> Iterator[Any]:
    for i in range(int(n)):
        yield np.int32(i)


@model(**N)
def breaks(n: Any) -> Iterator[Any]:
    for i in range(int(n)):
        yield np.int32(i)
    raise HandlerError("it broke")


# A slowly read stream occupies its instance: several are read at once.
@model(**N, instances=Threads(4))
def endless(n: Any) -> Iterator[Any]:
    STARTED.value += 1
    i = 0
    try:
        while True:
            yield np.int32(i)
            i += int(n)
            time.sleep(0.001)
    finally:
        STOPPED.value += 1


@model(**N)
def stuck(n: Any, ctx: Context) -> Iterator[Any]:
    yield np.int32(0)
    for _ in range(1000):
        if ctx.cancelled:
            return
        time.sleep(0.01)
    yield n


@model
def words(text: str) -> Iterator[str]:
    yield from text.split()


MODELS = [
    *map(_same, [*DATATYPES, "BYTES"]),
    double,
    arithmetic,
    upper,
    add,
    large,
    slow,
    fails,
    seen,
    count,
    breaks,
    endless,
    stuck,
    words,
]
