"""Which files an app's folder has."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from penstock import StartupError
from penstock.integrations import Finding

__all__ = ["CLASS", "Layout", "detect"]

CLASS = "InferlessPythonModel"
RUNTIMES = (
    *("inferless-runtime-config.yaml", "inferless-runtime-config.yml", "inferless_runtime_config.yaml"),
    *("inferless-runtime.yaml", "runtime.yaml", "config.yaml"),
)
PROJECTS = ("inferless.yaml", "inferless.yml")


@dataclass(frozen=True)
class Layout:
    """The files of an app. Those that it does not have are None."""

    folder: Path
    app: Path | None
    schema: Path | None
    inputs: Path | None
    outputs: Path | None
    runtime: Path | None
    project: Path | None

    @classmethod
    def of(cls, path: Path) -> Layout:
        """The files of a folder, or of the folder of an `app.py`."""
        folder = path if path.is_dir() else path.parent

        def first(*names: str) -> Path | None:
            return next((folder / name for name in names if (folder / name).is_file()), None)

        return cls(
            folder=folder,
            app=first("app.py"),
            schema=first("input_schema.py"),
            inputs=first("input.json"),
            outputs=first("output.json"),
            runtime=first(*RUNTIMES),
            project=first(*PROJECTS),
        )

    def required_app(self) -> Path:
        """The file `app.py`.

        Raises:
            StartupError: there is none.
        """
        if self.app is None:
            raise StartupError(f"{self.folder} has no app.py, which holds the class {CLASS}")
        return self.app


def detect(path: Path) -> Finding | None:
    """Whether a folder, or a file `app.py`, is an app. Nothing of it is run."""
    if path.is_file() and path.name != "app.py":
        return None
    layout = Layout.of(path)
    if layout.app is None:
        return None
    marks = marks_of(layout.app)
    if layout.project is not None and path.is_dir():
        return Finding("inferless", f"it has app.py and {layout.project.name}", 95)
    if CLASS in marks:
        return Finding("inferless", f"its app.py has the class {CLASS}", 95)
    if {"infer", "inferless"} <= marks:
        return Finding("inferless", "its app.py imports inferless, and has a class with a method infer", 90)
    if layout.schema is not None and "infer" in marks:
        return Finding("inferless", "it has input_schema.py, and a class with a method infer in app.py", 85)
    return None


def marks_of(app: Path) -> set[str]:
    """What `app.py` has of an app's marks: the class, an import of inferless, a class with a method `infer`."""
    try:
        tree = ast.parse(app.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # A file that cannot be parsed is still told from others by its text.
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
    """Whether a method is decorated by `@SOMETHING.infer`."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(one, ast.Attribute) and one.attr == "infer" for one in decorators)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
