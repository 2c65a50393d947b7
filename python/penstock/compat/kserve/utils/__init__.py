"""KServe's helpers; `from penstock.compat.kserve import utils` has the names of `utils.utils`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    # Loaded on first use: it uses the tensor types, which use this package.
    if not name.startswith("__"):
        module = importlib.import_module("penstock.compat.kserve.utils.utils")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
