"""Normalizes observations: removes ports, addresses, new ids and times."""

from __future__ import annotations

import re
from typing import Any

_VARYING = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\b(127\.0\.0\.1|localhost):\d+", "HOST:PORT"),
    (r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)", "TIME"),
    (r" at 0x[0-9a-f]+", " at ADDRESS"),
    (r"errors\.pydantic\.dev/[\d.]+", "errors.pydantic.dev/VERSION"),
)
_NUMBERS = ("inference-header-content-length", "created")
"""Names of numbers that may differ: the length of JSON, because spaces may differ, and a server's start time."""
_PROTOCOLS = {"outputs", "object"}
"""Fields that identify responses of V2 and of OpenAI."""
_EMPTY = {"model_version": (None, "1", ""), "parameters": (None, {})}
"""Values of V2 response fields that count as absent: KServe writes null for a version or an omitted field."""


def normal(value: Any) -> Any:
    """Returns an observation without values that differ from run to run."""
    if isinstance(value, str):
        for pattern, name in _VARYING:
            value = re.sub(pattern, name, value)
        return value
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, dict):
        if "outputs" in value and "model_name" in value:
            value = _response(value)
        elif "keys" in value and isinstance(value.get("json"), dict) and value["json"].keys() & _PROTOCOLS:
            # A protocol's responses may have their fields in any order.
            value = {**value, "keys": None}
        elif isinstance(value.get("headers"), dict):
            value = {**value, "headers": _headers(value["headers"])}
        return {name: "N" if name in _NUMBERS else normal(one) for name, one in value.items() if not _link(name, one)}
    return value


def _response(value: dict[str, Any]) -> dict[str, Any]:
    """Returns a V2 response without empty fields."""

    def non_empty(of: dict[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in of.items() if one not in _EMPTY.get(name, ())}

    return non_empty({**value, "outputs": [non_empty(one) for one in value["outputs"]]})


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """Returns headers without a content type that KServe omits: that of text and bytes."""
    kind = headers.get("content-type", "").partition(";")[0]
    others = {name: one for name, one in headers.items() if name != "content-type"}
    return others if kind in ("", "text/plain", "application/octet-stream") else {**others, "content-type": kind}


def _link(name: str, value: Any) -> bool:
    """Returns whether a value is a link into a library's documentation."""
    return name == "url" and isinstance(value, str) and "pydantic" in value
