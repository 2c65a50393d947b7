"""Requests of a benchmark: given ones, or the example of the model's description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock._spec import datatypes
from penstock.client._call import JSON, call, declared, needs_metadata
from penstock.client._hints import explain_model
from penstock.errors import InvalidInput, NotFound, PenstockError, by_kind

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.client._options import Call
    from penstock.client._raw import RawArguments

__all__ = ["Requests", "example", "plain", "probe", "tensors"]

Given = Mapping[str, Any]
"""Arguments of `Client.infer` by name, with `inputs`."""

_VARIABLE = 2
"""Size of variable axes of an example, as in the server's examples; the first one has 1."""
_UNSUCCESSFUL = {400: "invalid_input", 404: "not_found", 429: "overloaded", 503: "unavailable"}


@dataclass(frozen=True)
class Requests:
    """Requests in the form of the compiled extension: tensors, or JSON bodies."""

    calls: list[Call] = field(default_factory=list)
    bodies: list[RawArguments] = field(default_factory=list)


def tensors(client: Client, model: str, given: Sequence[Given]) -> Requests:
    """Requests of tensors. Values are converted as by `Client.infer`.

    Raises:
        PenstockError: a value cannot be converted, or the model's metadata cannot be read.
    """
    known = None
    if any(needs_metadata(one["inputs"]) for one in given):
        known = declared(_metadata(client, model, given[0]["version"]))
    return Requests(
        calls=[
            call(
                model,
                one["inputs"],
                known=known,
                version=one["version"],
                request_id=one.get("request_id"),
                outputs=one.get("outputs"),
                parameters=one.get("parameters"),
                datatypes=one.get("datatypes"),
            )
            for one in given
        ]
    )


def plain(model: str, given: Sequence[Given]) -> Requests:
    """Requests of plain JSON: an object with the inputs as its members.

    Raises:
        InvalidInput: an input is bytes, which JSON does not have.
    """
    path = f"/models/{quote(model, safe='')}"
    if (version := given[0]["version"]) is not None:
        path += f"/versions/{quote(version, safe='')}"
    bodies = []
    for one in given:
        values = {name: _json_value(name, value) for name, value in one["inputs"].items()}
        bodies.append(("POST", path, json.dumps(values).encode(), False))
    return Requests(bodies=bodies)


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        raise InvalidInput(f"input {name!r} is bytes, which JSON does not have: use tensors")
    return value.tolist() if hasattr(value, "tolist") else value


def example(client: Client, model: str, version: str | None) -> dict[str, Any]:
    """Inputs and parameters of an example: of the server's OpenAPI document, else made from the metadata.

    Numbers are 1, texts "text"; variable axes have 1 (the first) or 2.

    Raises:
        InvalidInput: the model declares no inputs, or one needs a document without an example.
        PenstockError: the metadata cannot be read.
    """
    if (found := _of_document(client, model, version)) is not None:
        return found
    inputs = _metadata(client, model, version).get("inputs") or []
    if not inputs:
        raise InvalidInput(f"model {model!r} declares no inputs: write them as NAME=VALUE")
    return {"inputs": {str(one["name"]): _ones(one) for one in inputs}, "datatypes": _wire_types(inputs)}


def _metadata(client: Client, model: str, version: str | None) -> dict[str, Any]:
    """The model's metadata. The error of an unknown model names the nearest one."""
    try:
        return client.metadata(model, version=version)
    except NotFound as error:
        with suppress(PenstockError, ValueError, LookupError, TypeError):
            explain_model(error, model, [str(one["name"]) for one in client.index()])
        raise


def _of_document(client: Client, model: str, version: str | None) -> dict[str, Any] | None:
    """The example in the OpenAPI document of the model; None if there is none."""
    route = f"/v2/models/{quote(model, safe='')}"
    versioned = route if version is None else f"{route}/versions/{quote(version, safe='')}"
    try:
        # Over gRPC the client refuses it.
        answer = client.request("GET", f"{route}/docs/dataplane.json")
        operation = answer.json()["paths"][f"{versioned}/infer"]["post"]
        request = operation["requestBody"]["content"]["application/json"]["examples"]["request"]["value"]
        return {
            "inputs": {one["name"]: _array(one) for one in request["inputs"]},
            "datatypes": _wire_types(request["inputs"]),
            "parameters": request.get("parameters", {}),
        }
    except (PenstockError, ValueError, LookupError, TypeError):
        return None


def _ones(tensor: Mapping[str, Any]) -> Any:
    if (tensor.get("parameters") or {}).get("content_type") == JSON:
        raise InvalidInput(f"input {tensor['name']!r} is a JSON document without an example: write it as NAME=VALUE")
    shape = [int(size) for size in tensor["shape"]]
    shape = [size if size >= 0 else 1 if axis == 0 else _VARIABLE for axis, size in enumerate(shape)]
    count = 1
    for size in shape:
        count *= size
    element: Any = "text" if tensor["datatype"] == datatypes.BYTES else 1
    return _array({**tensor, "shape": shape, "data": [element] * count})


def _array(tensor: Mapping[str, Any]) -> Any:
    import numpy as np

    dtype = datatypes.ARRAY_DTYPES.get(tensor["datatype"], np.dtype(object))
    return np.array(tensor["data"], dtype=dtype).reshape(tensor["shape"])


def _wire_types(tensors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Datatypes that the arrays do not have."""
    named = {str(one["name"]): str(one["datatype"]) for one in tensors}
    return {name: one for name, one in named.items() if one in datatypes.WIDENED or one == datatypes.BYTES}


def probe(client: Client, model: str, given: Given, requests: Requests) -> None:
    """Sends the first request once.

    Raises:
        PenstockError: the server cannot be reached, or refused it.
    """
    if requests.calls:
        client.infer(model, given["inputs"], **{name: value for name, value in given.items() if name != "inputs"})
        return
    method, path, body, _ = requests.bodies[0]
    answer = client.request(method, path, body, headers={"Content-Type": "application/json"})
    if not answer.ok:
        try:
            said = str(answer.json()["error"])
        except (ValueError, LookupError, TypeError):
            said = f"the server answered with status {answer.status}"
        raise by_kind(_UNSUCCESSFUL.get(answer.status, "internal"))(said)
