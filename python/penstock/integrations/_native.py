"""Folders with models of Penstock's own, beside what the integrations know: `app.py`, with `@model`s in it."""

from __future__ import annotations

import ast
from pathlib import Path

from penstock.errors import StartupError
from penstock.integrations._protocol import Finding

__all__ = ["ENTRY", "NAME", "detect", "file_of", "imports_penstock", "is_repository"]

NAME = "penstock"
ENTRY = "app.py"
"""The file of a folder that is served where only the folder is named."""


def detect(path: Path) -> Finding | None:
    """Whether a file, or a folder's `app.py`, imports Penstock."""
    if path.is_dir():
        if imports_penstock(path / ENTRY):
            return Finding(NAME, f"its {ENTRY} imports penstock", 95)
        return None
    if imports_penstock(path):
        return Finding(NAME, "it imports penstock", 95)
    return None


def file_of(path: Path) -> Path:
    """The file with the models.

    Raises:
        StartupError: a folder has none.
    """
    if not path.is_dir():
        return path
    if not (path / ENTRY).is_file():
        raise StartupError(f"{path} has no {ENTRY}; name the file with the models")
    return path / ENTRY


def imports_penstock(path: Path) -> bool:
    """Whether a Python file imports Penstock, wherever in it. `penstock.compat` counts as the integration."""
    if path.suffix != ".py":
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(
        name == NAME or (name.startswith(f"{NAME}.") and not name.startswith(f"{NAME}.compat"))
        for node in ast.walk(tree)
        for name in _imported(node)
    )


def is_repository(path: Path) -> bool:
    """Whether a folder is a model repository: `NAME/VERSION/model.py`."""
    return path.is_dir() and any(path.glob("*/[0-9]*/model.py"))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
