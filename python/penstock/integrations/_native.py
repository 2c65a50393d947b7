"""The native integration: Python files, and folders with an `app.py`, that have `@model`s."""

from __future__ import annotations

import ast
from pathlib import Path

from penstock.errors import StartupError
from penstock.integrations._protocol import Finding

__all__ = ["ENTRY", "NAME", "detect", "file_of", "imports_penstock", "is_repository"]

NAME = "penstock"
ENTRY = "app.py"
"""The file with the models of a folder."""


def detect(path: Path) -> Finding | None:
    """The finding for a file, or a folder's `app.py`, that imports Penstock."""
    if path.is_dir():
        if imports_penstock(path / ENTRY):
            return Finding(NAME, f"its {ENTRY} imports penstock", 95)
        return None
    if imports_penstock(path):
        return Finding(NAME, "it imports penstock", 95)
    return None


def file_of(path: Path) -> Path:
    """The file with the models of a path.

    Raises:
        StartupError: the folder has no such file.
    """
    if not path.is_dir():
        return path
    if not (path / ENTRY).is_file():
        raise StartupError(f"{path} has no {ENTRY}; name the file with the models")
    return path / ENTRY


def imports_penstock(path: Path) -> bool:
    """True if a Python file imports Penstock anywhere. Imports of `penstock.compat` do not count."""
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
    """True if a folder is a model repository: `NAME/VERSION/model.py`."""
    return path.is_dir() and any(path.glob("*/[0-9]*/model.py"))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
