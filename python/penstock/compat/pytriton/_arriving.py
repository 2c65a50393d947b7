"""The requests that an inference callable gets of a batch: views of its arrays, no copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from penstock import Context, RequestInfo
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["requests_of"]

Array = npt.NDArray[Any]


def requests_of(names: Sequence[str], arrays: Sequence[Array | None], ctx: Context, *, batching: bool) -> list[Request]:
    """A request for each that is joined in the batch.

    Args:
        names: The inputs.
        arrays: Their arrays; None for an optional one that is not there.
        ctx: What the callers sent beside them.
        batching: Whether the arrays have a batch axis.
    """
    inputs = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    callers = ctx.requests
    if len(callers) == 1 or not batching:
        return [Request(inputs, _parameters(callers[0]))]
    requests, start = [], 0
    for caller in callers:
        end = start + caller.rows
        data = {name: array[start:end] for name, array in inputs.items()}
        requests.append(Request(data, _parameters(caller)))
        start = end
    return requests


def _parameters(caller: RequestInfo) -> dict[str, Any]:
    # Headers that the server forwards are among them.
    return caller.parameters
