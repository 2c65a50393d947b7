"""Inference callable with an input `mode` that selects its violation of the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytriton.exceptions import PyTritonRuntimeError, PyTritonValidationError

F = np.float32


class Odd(Exception):
    """Custom exception."""


def contract(requests: Any) -> Any:
    """Returns the result for the first request's mode."""
    mode = requests[0]["mode"][0, 0].decode()
    return RESULTS[mode](requests)


def each(outputs: Any) -> Any:
    """Returns a callable with these outputs for each request, and valid values for other declared outputs."""

    def infer(requests: Any) -> Any:
        right = [{"y": request["x"], "t": np.array([[b"t"]] * len(request["x"]))} for request in requests]
        return [{**whole, **outputs(request["x"])} for whole, request in zip(right, requests, strict=True)]

    return infer


def only(outputs: Any) -> Any:
    """Returns a callable with exactly these outputs for each request."""
    return lambda requests: [outputs(request["x"]) for request in requests]


def raising(error: BaseException) -> Any:
    def fail(_: Any) -> Any:
        raise error

    return fail


RESULTS: dict[str, Any] = {
    "right": each(lambda x: {}),
    "a dict": lambda requests: {"y": requests[0]["x"]},
    "a tuple": lambda requests: ({"y": requests[0]["x"]},),
    "none": lambda requests: None,
    "too few": lambda requests: [],
    "too many": lambda requests: [{"y": requests[0]["x"]}, {"y": requests[0]["x"]}],
    "requests": lambda requests: requests,
    "items that are arrays": only(lambda x: x),
    "lists as values": each(lambda x: {"y": x.tolist()}),
    "numbers as values": each(lambda x: {"y": 1.5}),
    "complex": each(lambda x: {"y": x.astype(np.complex64)}),
    "dates": each(lambda x: {"y": np.array([["2020-01-01"]], "datetime64[D]")}),
    "objects of str": each(lambda x: {"t": np.array([["text"]], object)}),
    "objects of int": each(lambda x: {"t": np.array([[5]], object)}),
    "objects of bytes": each(lambda x: {"t": np.array([[b"by\0tes"]], object)}),
    "unicode": each(lambda x: {"t": np.array([["gr\u00fcn"]])}),
    "fixed bytes": each(lambda x: {"t": np.array([[b"abc"]])}),
    "float64": each(lambda x: {"y": x.astype(np.float64) + 0.1}),
    "int32": each(lambda x: {"y": x.astype(np.int32)}),
    "bool": each(lambda x: {"y": x > 0}),
    "wrong rank": each(lambda x: {"y": np.ones((len(x), 2, 2), F)}),
    "wrong batch": each(lambda x: {"y": np.ones((7, 3), F)}),
    "an undeclared one": only(lambda x: {"other": x}),
    "an extra one": each(lambda x: {"y": x, "other": x}),
    "a missing one": only(lambda x: {"y": x}),
    "none of them": only(lambda x: {}),
    "numbers for bytes": each(lambda x: {"t": x}),
    "bytes for numbers": each(lambda x: {"y": np.array([[b"abc"]])}),
    "empty": each(lambda x: {"y": np.zeros((1, 0), F)}),
    "not contiguous": each(lambda x: {"y": np.arange(12, dtype=F).reshape(3, 4).T[:1]}),
    "ValueError": raising(ValueError("the value")),
    "KeyError": raising(KeyError("the key")),
    "Odd": raising(Odd("own")),
    "without a text": raising(RuntimeError()),
    "two lines": raising(RuntimeError("first\nsecond")),
    "PyTritonRuntimeError": raising(PyTritonRuntimeError("runtime")),
    "PyTritonValidationError": raising(PyTritonValidationError("validation")),
}
