"""Values of settings as text, in the form of flags and variables, and as JSON."""

from __future__ import annotations

import os
from typing import Any

from penstock._config.settings import LISTS, SECRETS

__all__ = ["SET", "as_json", "shown"]

SET = "(set)"
"""Text in place of a secret."""

_SIZE_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def shown(kind: str, value: Any) -> str:
    """A value as a text that means the same; `(set)` for a secret, `none` for an empty list."""
    if value is None:
        return "auto" if kind == "size|auto" else "off"
    if kind in SECRETS:
        return SET
    if kind == "switch":
        return "on" if value else "off"
    if kind == "seconds":
        return f"{value:.9f}".rstrip("0").rstrip(".") + "s"
    if kind in ("size", "size|auto"):
        return next((f"{value // size}{unit}" for unit, size in _SIZE_UNITS if value % size == 0), str(value))
    if kind == "amounts":
        return ",".join(f"{name}={amount}" for name, amount in value) or "none"
    if kind in LISTS:
        return (os.pathsep if kind == "folders" else ",").join(value) or "none"
    return str(value)


def as_json(kind: str, value: Any) -> Any:
    """A value as JSON has it: durations in seconds, sizes in bytes; `(set)` for a secret."""
    if value is None:
        return None
    if kind in SECRETS:
        return SET
    return dict(value) if kind == "amounts" else list(value) if kind in LISTS else value
