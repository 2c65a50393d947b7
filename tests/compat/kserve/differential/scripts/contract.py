"""Results and exceptions of handlers, by the request's mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import NEW
from fastapi import HTTPException
from kserve import InferOutput, InferResponse
from kserve.errors import InferenceError, InvalidInput, ModelMissingError, ModelNotFound, ModelNotReady


class UnknownError(Exception):
    """An exception that KServe does not know."""


def constant(value: Any) -> Any:
    """Returns a handler with a constant result."""
    return lambda payload, name: value


def response(payload: Any, name: str) -> Any:
    """Returns a response object."""
    return InferResponse("an-id", name, [InferOutput("y", [2], "FP32", [1.0, 2.5])])


async def chunks() -> Any:
    """Yields bytes and text."""
    yield b"one,"
    yield "two"


RESULTS: dict[str, Callable[[Any, str], Any]] = {
    "a dict": constant({"predictions": [1, 2.5, "three", None, True, {"four": [5]}]}),
    "an empty dict": constant({}),
    "a list": constant([1, 2, [3]]),
    "a number": constant(7),
    "none": constant(None),
    "a text": constant("gr\u00fcn"),
    "bytes": constant(b"\x00\x01raw"),
    "an array within": constant({"predictions": np.arange(4, dtype=np.float32).reshape(2, 2)}),
    "numpy numbers": constant({"predictions": [np.float32(1.5), np.int64(2), np.bool_(True)]}),
    "not a number": constant({"predictions": [float("nan"), 1.0]}),
    "large numbers": constant({"predictions": [2**53 + 1, -(2**63), 1e300, 0.1]}),
    "texts": constant({"predictions": ["\u2028", 'quote"', "\\", "\U0001f600"]}),
    "a response": response,
    "a stream": lambda payload, name: chunks(),
    "a v2 dict": lambda payload, name: {
        "model_name": name,
        "id": "an-id",
        "outputs": [{"name": "y", "shape": [2], "datatype": "INT32", "data": [1, 2]}],
    },
    "a wrong v2 dict": constant({"predictions": [1]}),
    "a tuple": constant((1, 2)),
    "a set": constant({1}),
    "an object": constant(object()),
}


def unsupported() -> Exception:
    """Returns an exception of the newer dialect."""
    from kserve.errors import UnsupportedProtocol

    return UnsupportedProtocol("v9")


def not_ready(kind: str) -> Exception:
    """Returns a server exception of the newer dialect."""
    from kserve import errors

    return getattr(errors, kind)("in a while")  # type: ignore[no-any-return]


FAILURES: dict[str, Callable[[], BaseException]] = {
    "InferenceError": lambda: InferenceError("it failed"),
    "InferenceError with a status": lambda: InferenceError("it failed", "E1", "details"),
    "InvalidInput": lambda: InvalidInput("no such thing"),
    "ModelNotFound": lambda: ModelNotFound("other"),
    "ModelNotReady": lambda: ModelNotReady("other"),
    "ModelNotReady with a detail": lambda: ModelNotReady("other", "it warms up"),
    "ModelMissingError": lambda: ModelMissingError("/mnt/models"),
    "NotImplementedError": NotImplementedError,
    "NotImplementedError with a text": lambda: NotImplementedError("not yet"),
    "HTTPException": lambda: HTTPException(418, "a teapot"),
    "HTTPException with headers": lambda: HTTPException(429, {"why": "busy"}, headers={"Retry-After": "7"}),
    "ValueError": lambda: ValueError("the value"),
    "KeyError": lambda: KeyError("the key"),
    "UnknownError": lambda: UnknownError("own"),
    "without a text": RuntimeError,
    "TimeoutError": lambda: TimeoutError("too long"),
}
if NEW:
    FAILURES |= {
        "UnsupportedProtocol": unsupported,
        "ServerNotReady": lambda: not_ready("ServerNotReady"),
        "ServerNotLive": lambda: not_ready("ServerNotLive"),
    }
