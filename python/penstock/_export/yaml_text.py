"""YAML writer for plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["document", "documents"]

# Texts that no reader takes for a number, date or boolean. Others are quoted.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def documents(documents_data: Sequence[Mapping[str, Any]]) -> str:
    """Several documents in one text."""
    return "---\n".join(document(data) for data in documents_data)


def document(data: Mapping[str, Any]) -> str:
    """One document of dicts, lists, texts, numbers and booleans; keys keep their order."""
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
