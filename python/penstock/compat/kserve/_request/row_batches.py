"""Batches of rows of several requests: grouping, merging, and splitting of the result.

Requests are compatible if only their rows differ: the same protocol, the same names, datatypes and row shapes, equal
parameters. The model gets the headers that all of them have with the same value.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.compat.kserve.errors import InferenceError
from penstock.compat.kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse

if TYPE_CHECKING:
    from penstock import Request

__all__ = ["ReceivedRequest", "common_headers", "grouped", "merged", "split"]

_PER_ROW = ("predictions", "explanations")
"""Members of a V1 response that have one element per row."""


@dataclass
class ReceivedRequest:
    """A request that has been read."""

    request: Request
    body: Any
    event: dict[str, Any] | None
    explain: bool
    headers: dict[str, str]

    @property
    def rows(self) -> int:
        """The number of rows; 1 for a request that cannot be merged."""
        if isinstance(self.body, InferRequest):
            return _length(self.body) or 1
        return len(self.body["instances"]) if _has_rows(self.body) else 1


def grouped(received: Sequence[ReceivedRequest], limit: int) -> list[list[ReceivedRequest]]:
    """Returns groups of compatible requests of at most `limit` rows; a larger request is a group alone."""
    groups: list[list[ReceivedRequest]] = []
    open_groups: dict[Hashable, tuple[list[ReceivedRequest], int]] = {}
    for one in received:
        key = _key(one)
        group, rows = open_groups.get(key, ([], 0)) if key is not None else ([], 0)
        if not group or rows + one.rows > limit:
            group, rows = [], 0
            groups.append(group)
        group.append(one)
        if key is not None:
            open_groups[key] = group, rows + one.rows
    return groups


def merged(group: Sequence[ReceivedRequest], model: str) -> Any:
    """Returns the request with all rows of a group."""
    first = group[0].body
    if not isinstance(first, InferRequest):
        return {**first, "instances": [row for one in group for row in one.body["instances"]]}
    inputs = []
    for index, one in enumerate(first.inputs):
        array = np.concatenate([each.body.inputs[index]._outgoing() for each in group])
        inputs.append(InferInput._holding(one.name, one.datatype, array, one.parameters, one._shown))
    request = InferRequest(model, inputs, None, from_grpc=first.from_grpc, parameters=first.parameters)
    request._use_raw_outputs = first._use_raw_outputs
    request.request_outputs = first.request_outputs
    return request


def common_headers(group: Sequence[ReceivedRequest]) -> dict[str, str]:
    """Returns the headers that all requests of a group have with the same value."""
    first, *others = (one.headers for one in group)
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def split(result: Any, group: Sequence[ReceivedRequest]) -> list[Any]:
    """Returns the result of each request of a group.

    Raises:
        InferenceError: the result has not as many rows as the requests.
    """
    counts = [one.rows for one in group]
    if isinstance(result, InferResponse):
        return _split_tensors(result, counts, group)
    if isinstance(result, list):
        return _slices(result, counts, "its list")
    if not isinstance(result, dict) or not any(name in result for name in _PER_ROW):
        raise InferenceError("the response to a batch of requests has no predictions")
    lists = {name: _slices(result[name], counts, name) for name in _PER_ROW if name in result}
    return [{**result, **{name: parts[index] for name, parts in lists.items()}} for index in range(len(counts))]


def _split_tensors(result: InferResponse, counts: list[int], group: Sequence[ReceivedRequest]) -> list[Any]:
    parts = {output.name: _slices(output._outgoing(), counts, f"output '{output.name}'") for output in result.outputs}
    return [
        InferResponse(
            one.body.id,
            result.model_name,
            [
                InferOutput._holding(output.name, output.datatype, parts[output.name][index], output.parameters)
                for output in result.outputs
            ],
            parameters=result.parameters,
        )
        for index, one in enumerate(group)
    ]


def _slices(rows: Any, counts: list[int], what: str) -> list[Any]:
    """Returns consecutive slices of `counts` rows."""
    total = sum(counts)
    found = len(rows) if getattr(rows, "ndim", 1) and hasattr(rows, "__len__") else 0
    if found != total:
        raise InferenceError(f"the model answered {found} rows in {what} to {total} rows of {len(counts)} requests")
    ends = np.cumsum(counts).tolist()
    return [rows[end - count : end] for count, end in zip(counts, ends, strict=True)]


def _key(one: ReceivedRequest) -> Hashable:
    """Returns a value that compatible requests have in common; None for a request that cannot be merged."""
    body, request = one.body, one.request
    try:
        if isinstance(body, InferRequest):
            if not _length(body):
                return None
            tensors = tuple(
                (each.name, each.datatype, each._shown, *each.shape[1:], _text(each.parameters)) for each in body.inputs
            )
            return request.protocol, request.binary, tensors, _text(body.parameters), request.outputs
        if one.event is not None or not _has_rows(body):
            return None
        return one.explain, _text({name: value for name, value in body.items() if name != "instances"})
    except (TypeError, ValueError):
        return None


def _has_rows(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("instances"), list) and bool(body["instances"])


def _length(body: InferRequest) -> int:
    """Returns the length of the first axis of all inputs; 0 if they differ or there are none."""
    lengths = {one.shape[0] if one.shape else 0 for one in body.inputs}
    return lengths.pop() if len(lengths) == 1 else 0


def _text(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True, default=repr) if parameters else ""
