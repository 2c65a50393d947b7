"""The deprecated `input.json` and `output.json`, which declare tensors by samples."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.compat.inferless._spec.schema import SchemaError, Tensor, read_shape, wire_type

__all__ = ["read_samples"]


def read_samples(path: Path, key: str) -> tuple[Tensor, ...]:
    """Reads the tensors of a sample file; their `data` become examples, unchecked.

    Args:
        path: The file.
        key: "inputs" or "outputs".

    Raises:
        SchemaError: the file is invalid.
    """
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SchemaError(f"{path.name} is not JSON: {error}") from None
    listed = parsed.get(key) if isinstance(parsed, dict) else None
    if not isinstance(listed, list):
        raise SchemaError(f'{path.name} must hold {{"{key}": [...]}}')
    found = []
    for at, one in enumerate(listed):
        where = f"{path.name}: {key}[{at}]"
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise SchemaError(f"{where} must have a 'name'")
        shape = read_shape(one.get("shape"), where)
        data = one.get("data")
        example = data[0] if isinstance(data, list) and len(data) == 1 and shape == (1,) else data
        found.append(Tensor(one["name"], wire_type(one.get("datatype"), where), shape, example=example))
    return tuple(found)
