"""The fixture models of the V1 protocol: arrays, documents, text and an explainer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock import Batching, Context, InvalidInput, Tensor, model

BATCHING = Batching(max_size=8)


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=BATCHING)
class rows:
    """One batched input, and an explainer with the same batches."""

    def __init__(self) -> None:
        self.factor = np.float32(2)

    def __call__(self, x: Any) -> Any:
        return x * self.factor

    def explain(self, x: Any) -> Annotated[np.ndarray, Tensor("weight", np.float32, [2])]:
        return np.full_like(x, self.factor)


@model(
    inputs=[Tensor("a", np.float32, [2]), Tensor("b", np.int32, [], optional=True)],
    outputs=[Tensor("total", np.float32, []), Tensor("b", np.int32, [])],
    batching=BATCHING,
)
def two(a: Any, b: Any = None) -> Any:
    return a.sum(axis=1, dtype=np.float32), np.zeros(len(a), np.int32) if b is None else b


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [])])
def total(x: Any) -> Any:
    return x.sum(dtype=np.float32)


@model(inputs=[Tensor("x", bytes, [])], outputs=[Tensor("y", bytes, []), Tensor("y_bytes", bytes, [])])
def raw(x: Any) -> Any:
    return x, x


@dataclass
class User:
    """A JSON document."""

    name: str
    age: int = 0


@model
class user:
    """Documents in and out, and an explanation document."""

    def __call__(self, user: User) -> dict[str, Any]:
        if user.age < 0:
            raise InvalidInput("age must not be negative")
        return {"hello": user.name, "next": user.age + 1}

    def explain(self, user: User) -> dict[str, Any]:
        return {"because": user.name}


@model
def echo_context(word: str, ctx: Context) -> dict[str, Any]:
    request = ctx.requests[0]
    return {"word": word, "parameters": dict(request.parameters), "header": request.headers.get("x-test")}


@model(inputs=[Tensor("x", np.float32, [])], outputs=[Tensor("y", np.float32, [])], version=1, name="versioned")
def first(x: Any) -> Any:
    return x


@model(inputs=[Tensor("x", np.float32, [])], outputs=[Tensor("y", np.float32, [])], version=2, name="versioned")
def second(x: Any) -> Any:
    return x * 2


@model
def chunks(count: int) -> Iterator[int]:
    yield from range(count)


MODELS = (chunks, rows, two, total, raw, user, echo_context, first, second)
