"""Detection of Inferless apps."""

from __future__ import annotations

import ast
from pathlib import Path

from penstock.compat.inferless._spec.app_files import CLASS, Layout
from penstock.integrations import Finding

__all__ = ["detect"]


def detect(path: Path) -> Finding | None:
    """Recognizes an app's folder or `app.py`, without running it."""
    if path.is_file() and path.name != "app.py":
        return None
    layout = Layout.of(path)
    if layout.app is None:
        return None
    marks = _marks(layout.app)
    if layout.project is not None and path.is_dir():
        return Finding("inferless", f"it has app.py and {layout.project.name}", 95)
    if CLASS in marks:
        return Finding("inferless", f"its app.py has the class {CLASS}", 95)
    if {"infer", "inferless"} <= marks:
        return Finding("inferless", "its app.py imports inferless, and has a class with a method infer", 90)
    if layout.schema is not None and "infer" in marks:
        return Finding("inferless", "it has input_schema.py, and a class with a method infer in app.py", 85)
    return None


def _marks(app: Path) -> set[str]:
    """Returns which marks of an app `app.py` has: the class, an import of `inferless`, a method `infer`."""
    try:
        tree = ast.parse(app.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # A file with a syntax error is recognized by its text, so that the error is reported later.
        return {CLASS} if CLASS in _text(app) else set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {CLASS} & {node.name}
            found |= {"infer"} if any(getattr(one, "name", "") == "infer" for one in node.body) else set()
            found |= {"infer"} if any(_is_marked(one) for one in node.body) else set()
        elif isinstance(node, ast.ImportFrom):
            found |= {CLASS} & {one.asname or one.name for one in node.names}
            found |= {"inferless"} & {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Import):
            found |= {"inferless"} & {one.name.partition(".")[0] for one in node.names}
    return found


def _is_marked(node: ast.stmt) -> bool:
    """Returns whether a method has a decorator `@NAME.infer`."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(one, ast.Attribute) and one.attr == "infer" for one in decorators)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
