"""Writes plain data as YAML. There is no reader: nothing here has to understand what others wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["document", "documents"]

# What no reader takes for a number, a date, or yes and no: everything else is in quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def documents(all_of_them: Sequence[Mapping[str, Any]]) -> str:
    """Several documents in one text."""
    return "---\n".join(document(one) for one in all_of_them)


def document(data: Mapping[str, Any]) -> str:
    """One document: tables, lists, texts, numbers and booleans; keys in the order that they have."""
    return "\n".join(_lines(data)) + "\n"


def _lines(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [line for key, one in value.items() for line in _entry(f"{_scalar(key)}:", one)]
    return [line for one in value for line in _item(one)]


def _entry(head: str, value: Any) -> list[str]:
    if isinstance(value, (Mapping, list)) and value:
        return [head, *("  " + line for line in _lines(value))]
    return [f"{head} {_scalar(value)}"]


def _item(value: Any) -> list[str]:
    if isinstance(value, (Mapping, list)) and value:
        first, *rest = _lines(value)
        return [f"- {first}", *("  " + line for line in rest)]
    return [f"- {_scalar(value)}"]


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    # Every JSON text is a YAML text.
    return json.dumps(value, ensure_ascii=False)
