"""Requests: input tensors, and bodies with `inputs` or `parameters`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock import InvalidInput, Request
from penstock.integrations import json_text

__all__ = ["InputTensor", "ParsedRequest", "parse_request"]

_RESERVED = ("inputs", "parameters", "outputs", "id")


class InputTensor(NamedTuple):
    """One tensor of a request."""

    name: str
    data: Any
    """Nested lists, a flat list, or one value."""
    datatype: str | None = None
    """Datatype in the request; None for the declared one."""
    shape: tuple[int, ...] | None = None
    """Shape in the request; None to derive it from the data."""


class ParsedRequest(NamedTuple):
    """A parsed request."""

    tensors: list[InputTensor]
    id: str = ""
    outputs: tuple[str, ...] | None = None
    """Names of the requested outputs; None for all."""
    values: dict[str, Any] | None = None
    """Values by input, from the fast path of `parse_request`; `tensors` is empty then."""

    def select_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the requested outputs.

        Raises:
            InvalidInput: a requested output does not exist.
        """
        if self.outputs is None:
            return outputs
        unknown = next((one for one in self.outputs if one not in outputs), None)
        if unknown is not None:
            known = ", ".join(f"'{name}'" for name in outputs)
            raise InvalidInput(f"there is no output '{unknown}', expected {known}")
        return {name: outputs[name] for name in self.outputs}


def parse_request(
    request: Request, read_plain: Callable[[list[Any]], dict[str, Any] | None] | None = None
) -> ParsedRequest:
    """Parses a request of tensors (V2) or with a JSON body (the app's routes).

    Args:
        request: The request.
        read_plain: Fast path: returns the values of a body's `inputs`; None if it does not apply.

    Raises:
        InvalidInput: the body has none of the supported forms.
    """
    if request.route is None:
        types = request.datatypes
        tensors = [
            InputTensor(name, array.tolist(), types[name], array.shape) for name, array in request.tensors.items()
        ]
        return ParsedRequest(tensors, request.id, request.outputs)
    return _parse_body(request, request.body or b"", read_plain)


def _json_reader() -> Callable[[bytes], Any]:
    """Returns the JSON decoder: orjson's where it is installed."""
    try:
        import orjson
    except ImportError:
        return json_text.loads

    def read(body: bytes) -> Any:
        try:
            return orjson.loads(body)
        except ValueError:
            # orjson rejects integers over 64 bits and NaN, and has shorter messages about lone surrogates.
            return json_text.loads(body)

    return read


_read_json = _json_reader()


def _parse_body(
    request: Request, body: bytes, read_plain: Callable[[list[Any]], dict[str, Any] | None] | None
) -> ParsedRequest:
    try:
        parsed = _read_json(body)
    except (ValueError, RecursionError) as error:
        if body.strip():
            raise InvalidInput(f"the body is not JSON: {error}") from None
        parsed = {}
    if not isinstance(parsed, dict):
        raise InvalidInput("the body must be a JSON object with 'inputs' or 'parameters'")
    name = parsed.get("id")
    if name is None:
        name = request.id if "id" not in parsed else None
    if not isinstance(name, str):
        raise InvalidInput("'id' must be a string")
    outputs = _parse_outputs(parsed.get("outputs"))
    if "inputs" in parsed:
        inputs = parsed["inputs"]
        if not isinstance(inputs, list):
            raise InvalidInput("'inputs' must be a list of tensors")
        if read_plain is not None and (values := read_plain(inputs)) is not None:
            return ParsedRequest([], name, outputs, values)
        return ParsedRequest([_parse_tensor(index, one) for index, one in enumerate(inputs)], name, outputs)
    values = parsed.get("parameters", {})
    if not isinstance(values, dict):
        raise InvalidInput("'parameters' must be an object of inputs by name")
    if request.path.rsplit("/", 1)[-1].startswith("generate"):
        values = {**values, **{key: one for key, one in parsed.items() if key not in _RESERVED}}
    # A null parameter counts as absent.
    return ParsedRequest([InputTensor(str(key), one) for key, one in values.items() if one is not None], name, outputs)


def _parse_tensor(index: int, parsed: Any) -> InputTensor:
    if not isinstance(parsed, dict) or not isinstance(parsed.get("name"), str):
        raise InvalidInput(f"inputs[{index}] must be an object with a 'name'")
    name = parsed["name"]
    if "data" not in parsed:
        raise InvalidInput(f"input '{name}' has no 'data'")
    shape = parsed.get("shape")
    sizes = shape if isinstance(shape, list) else []
    if (shape is not None and not isinstance(shape, list)) or any(
        not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in sizes
    ):
        raise InvalidInput(f"input '{name}': 'shape' must be a list of lengths, such as [1]")
    datatype = parsed.get("datatype")
    if datatype is not None and not isinstance(datatype, str):
        raise InvalidInput(f"input '{name}': 'datatype' must be a string")
    return InputTensor(name, parsed["data"], datatype, None if shape is None else tuple(sizes))


def _parse_outputs(parsed: Any) -> tuple[str, ...] | None:
    if not parsed:
        return None
    if not isinstance(parsed, list) or any(
        not isinstance(one, dict) or not isinstance(one.get("name"), str) for one in parsed
    ):
        raise InvalidInput("'outputs' must be a list of objects with a 'name'")
    return tuple(one["name"] for one in parsed)
