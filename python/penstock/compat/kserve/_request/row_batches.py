"""Rows of several requests in one call of a model: which requests go together, and how their answer is parted.

Requests go together if nothing but their rows differs: the same protocol, the same names, datatypes and shapes of rows,
equal parameters. The model sees the headers that all of them have with the same value.
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

__all__ = ["Arrived", "groups", "joined", "parted", "shared_headers"]

_PARTED = ("predictions", "explanations")
"""What has one element for each row in an answer of V1."""


@dataclass
class Arrived:
    """A request that was read."""

    request: Request
    body: Any
    event: dict[str, Any] | None
    explain: bool
    headers: dict[str, str]

    @property
    def rows(self) -> int:
        """How many rows it has; 1 if it has none that could be joined."""
        if isinstance(self.body, InferRequest):
            return _length(self.body) or 1
        return len(self.body["instances"]) if _has_rows(self.body) else 1


def groups(arrived: Sequence[Arrived], limit: int) -> list[list[Arrived]]:
    """The requests that go together, each group with so many rows at most unless it is a single one."""
    found: list[list[Arrived]] = []
    open_groups: dict[Hashable, tuple[list[Arrived], int]] = {}
    for one in arrived:
        key = _key(one)
        group, rows = open_groups.get(key, ([], 0)) if key is not None else ([], 0)
        if not group or rows + one.rows > limit:
            group, rows = [], 0
            found.append(group)
        group.append(one)
        if key is not None:
            open_groups[key] = group, rows + one.rows
    return found


def joined(group: Sequence[Arrived], model: str) -> Any:
    """The request that has the rows of all of a group."""
    first = group[0].body
    if not isinstance(first, InferRequest):
        return {**first, "instances": [row for one in group for row in one.body["instances"]]}
    inputs = []
    for place, one in enumerate(first.inputs):
        array = np.concatenate([each.body.inputs[place]._outgoing() for each in group])
        inputs.append(InferInput._holding(one.name, one.datatype, array, one.parameters, one._shown))
    made = InferRequest(model, inputs, None, from_grpc=first.from_grpc, parameters=first.parameters)
    made._use_raw_outputs = first._use_raw_outputs
    made.request_outputs = first.request_outputs
    return made


def shared_headers(group: Sequence[Arrived]) -> dict[str, str]:
    """The headers that all requests of a group have with the same value."""
    first, *others = (one.headers for one in group)
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def parted(result: Any, group: Sequence[Arrived]) -> list[Any]:
    """The answer of each request of a group.

    Raises:
        InferenceError: it does not have as many rows as the requests.
    """
    counts = [one.rows for one in group]
    if isinstance(result, InferResponse):
        return _parted_tensors(result, counts, group)
    if isinstance(result, list):
        return _slices(result, counts, "its list")
    if not isinstance(result, dict) or not any(name in result for name in _PARTED):
        raise InferenceError("an answer to rows of several requests has to have predictions")
    lists = {name: _slices(result[name], counts, name) for name in _PARTED if name in result}
    return [{**result, **{name: part[place] for name, part in lists.items()}} for place in range(len(counts))]


def _parted_tensors(result: InferResponse, counts: list[int], group: Sequence[Arrived]) -> list[Any]:
    parts = {output.name: _slices(output._outgoing(), counts, f"output '{output.name}'") for output in result.outputs}
    return [
        InferResponse(
            one.body.id,
            result.model_name,
            [
                InferOutput._holding(output.name, output.datatype, parts[output.name][place], output.parameters)
                for output in result.outputs
            ],
            parameters=result.parameters,
        )
        for place, one in enumerate(group)
    ]


def _slices(rows: Any, counts: list[int], what: str) -> list[Any]:
    """Rows, so many for each."""
    total = sum(counts)
    found = len(rows) if getattr(rows, "ndim", 1) and hasattr(rows, "__len__") else 0
    if found != total:
        raise InferenceError(f"the model answered {found} rows in {what} to {total} rows of {len(counts)} requests")
    ends = np.cumsum(counts).tolist()
    return [rows[end - count : end] for count, end in zip(counts, ends, strict=True)]


def _key(one: Arrived) -> Hashable:
    """What has to be the same of requests that go together; None of a request that goes alone."""
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
    """How long the first axis of all inputs is; 0 if they differ, or there is none."""
    lengths = {one.shape[0] if one.shape else 0 for one in body.inputs}
    return lengths.pop() if len(lengths) == 1 else 0


def _text(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True, default=repr) if parameters else ""
