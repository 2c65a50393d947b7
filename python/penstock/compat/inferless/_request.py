"""What a request brings, in whichever form: tensors, a body with `inputs`, or one with `parameters`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock import InvalidInput, Request
from penstock.compat.inferless._app.input_reader import Given, Reader
from penstock.integrations import json_text

__all__ = ["Asked", "asked_of"]

_RESERVED = ("inputs", "parameters", "outputs", "id")


class Asked(NamedTuple):
    """What a request asks."""

    given: list[Given]
    id: str = ""
    outputs: tuple[str, ...] | None = None
    """The outputs that it wants; None for all."""
    values: dict[str, Any] | None = None
    """The values of its tensors, where they were plain; then nothing is in `given`."""

    def wanted(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of an answer, what is wanted.

        Raises:
            InvalidInput: it wants an output that there is not.
        """
        if self.outputs is None:
            return found
        unknown = next((one for one in self.outputs if one not in found), None)
        if unknown is not None:
            known = ", ".join(f"'{name}'" for name in found)
            raise InvalidInput(f"there is no output '{unknown}', expected {known}")
        return {name: found[name] for name in self.outputs}


def asked_of(request: Request, reader: Reader | None = None) -> Asked:
    """What a request asks, be it of tensors or with a body.

    Args:
        request: The request.
        reader: Who may read its values at once, where they are plain.

    Raises:
        InvalidInput: the body is none of the known forms.
    """
    if request.route is None:
        types = request.datatypes
        given = [Given(name, array.tolist(), types[name], array.shape) for name, array in request.tensors.items()]
        return Asked(given, request.id, request.outputs)
    return _of_body(request, request.body or b"", reader)


def _json() -> Callable[[bytes], Any]:
    """What reads JSON: the quick one where it is installed."""
    try:
        import orjson
    except ImportError:
        return json_text.loads

    def read(body: bytes) -> Any:
        try:
            return orjson.loads(body)
        except ValueError:
            # It does not read numbers of more than 64 bits, and NaN; and it says less of halves of surrogate pairs.
            return json_text.loads(body)

    return read


_read = _json()


def _of_body(request: Request, body: bytes, reader: Reader | None) -> Asked:
    try:
        told = _read(body)
    except (ValueError, RecursionError) as error:
        if body.strip():
            raise InvalidInput(f"the body is no JSON: {error}") from None
        told = {}
    if not isinstance(told, dict):
        raise InvalidInput("the body must be a JSON object with 'inputs' or 'parameters'")
    name = told.get("id")
    if name is None:
        name = request.id if "id" not in told else None
    if not isinstance(name, str):
        raise InvalidInput("'id' must be a string")
    outputs = _outputs(told.get("outputs"))
    if "inputs" in told:
        listed = told["inputs"]
        if not isinstance(listed, list):
            raise InvalidInput("'inputs' must be a list of tensors")
        if reader is not None and (values := reader.plain(listed)) is not None:
            return Asked([], name, outputs, values)
        return Asked([_tensor(at, one) for at, one in enumerate(listed)], name, outputs)
    values = told.get("parameters", {})
    if not isinstance(values, dict):
        raise InvalidInput("'parameters' must be an object of inputs by name")
    if request.path.rsplit("/", 1)[-1].startswith("generate"):
        values = {**values, **{key: one for key, one in told.items() if key not in _RESERVED}}
    # One that is null is one that is not given.
    return Asked([Given(str(key), one) for key, one in values.items() if one is not None], name, outputs)


def _tensor(at: int, told: Any) -> Given:
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        raise InvalidInput(f"inputs[{at}] must be an object with a 'name'")
    name = told["name"]
    if "data" not in told:
        raise InvalidInput(f"input '{name}' has no 'data'")
    shape = told.get("shape")
    sizes = shape if isinstance(shape, list) else []
    if (shape is not None and not isinstance(shape, list)) or any(
        not isinstance(one, int) or isinstance(one, bool) or one < 0 for one in sizes
    ):
        raise InvalidInput(f"input '{name}': 'shape' must be a list of lengths, such as [1]")
    datatype = told.get("datatype")
    if datatype is not None and not isinstance(datatype, str):
        raise InvalidInput(f"input '{name}': 'datatype' must be a string")
    return Given(name, told["data"], datatype, None if shape is None else tuple(sizes))


def _outputs(told: Any) -> tuple[str, ...] | None:
    if not told:
        return None
    if not isinstance(told, list) or any(
        not isinstance(one, dict) or not isinstance(one.get("name"), str) for one in told
    ):
        raise InvalidInput("'outputs' must be a list of objects with a 'name'")
    return tuple(one["name"] for one in told)
