"""Text format of messages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol.grpc._fields import Field, FieldMessage, Kind

__all__ = ["shown"]


def shown(message: FieldMessage, indent: str = "") -> str:
    """Returns a line per value, with messages in braces."""
    return "".join(_field(field, message.__dict__[field.name], indent) for field in message._set_fields())


def _field(field: Field, value: Any, indent: str) -> str:
    if field.is_map:
        inner = indent + "  "
        return "".join(
            f'{indent}{field.name} {{\n{inner}key: "{key}"\n'
            f"{inner}value {{\n{shown(one, inner + '  ')}{inner}}}\n{indent}}}\n"
            for key, one in value.items()
        )
    values = value if field.repeated else [value]
    if field.kind is Kind.MESSAGE:
        return "".join(f"{indent}{field.name} {{\n{shown(one, indent + '  ')}{indent}}}\n" for one in values)
    return "".join(f"{indent}{field.name}: {_plain(field, one)}\n" for one in values)


def _plain(field: Field, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if field.kind is Kind.FLOAT:
        # The shortest digits that distinguish a float32.
        return str(np.float32(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _escaped(byte: int) -> str:
    known = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return known.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
