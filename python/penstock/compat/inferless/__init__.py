"""Inferless integration: serves apps, and replaces the package `inferless` where it is not installed.

`penstock serve FOLDER` calls `detect` and `load`; see docs/inferless.md. The other names are those of the package
`inferless`. Modules are imported at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compat.inferless._check import check
    from penstock.compat.inferless._client import call, call_async
    from penstock.compat.inferless._decorators import Cls, config, local_entry_point, method, request, response
    from penstock.compat.inferless._detect import detect
    from penstock.compat.inferless._examples import greeting, scaffold
    from penstock.compat.inferless._image import describe
    from penstock.compat.inferless._load import load

__all__ = [
    "Cls",
    "call",
    "call_async",
    "check",
    "config",
    "describe",
    "detect",
    "greeting",
    "load",
    "local_entry_point",
    "method",
    "request",
    "response",
    "scaffold",
]

__penstock_integration__ = "inferless"

_MODULES = {
    "_client": ("call", "call_async"),
    "_check": ("check",),
    "_decorators": ("Cls", "config", "local_entry_point", "method", "request", "response"),
    "_examples": ("greeting", "scaffold"),
    "_image": ("describe",),
    "_detect": ("detect",),
    "_load": ("load",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
