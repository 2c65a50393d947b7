"""Files of an app's folder, read without running them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock import StartupError
from penstock.compat.inferless._spec.project import Project, read_project
from penstock.compat.inferless._spec.runtime import Runtime, read_runtime

__all__ = ["CLASS", "AppFiles", "Layout", "model_name", "read_app"]

CLASS = "InferlessPythonModel"
RUNTIMES = (
    *("inferless-runtime-config.yaml", "inferless-runtime-config.yml", "inferless_runtime_config.yaml"),
    *("inferless-runtime.yaml", "runtime.yaml", "config.yaml"),
)
PROJECTS = ("inferless.yaml", "inferless.yml")


@dataclass(frozen=True)
class Layout:
    """Paths of an app's files; None for a missing file."""

    folder: Path
    app: Path | None
    schema: Path | None
    inputs: Path | None
    outputs: Path | None
    runtime: Path | None
    project: Path | None

    @classmethod
    def of(cls, path: Path) -> Layout:
        """Returns the files of a folder, or of the folder of an `app.py`."""
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
        """Returns the path of `app.py`.

        Raises:
            StartupError: the file is missing.
        """
        if self.app is None:
            raise StartupError(f"{self.folder} has no app.py, which holds the class {CLASS}")
        return self.app


@dataclass(frozen=True)
class AppFiles:
    """Contents of an app's folder, apart from its code."""

    layout: Layout
    project: Project
    runtime: Runtime


def read_app(path: Path) -> AppFiles:
    """Reads the files of an app's folder, without running code.

    Raises:
        StartupError: `app.py` is missing, or a file is invalid.
    """
    layout = Layout.of(path)
    layout.required_app()
    project = read_project(layout.project)
    named = layout.folder / project.runtime_file if project.runtime_file else None
    runtime = read_runtime(named if named is not None and named.is_file() else layout.runtime)
    return AppFiles(layout, project, runtime)


def model_name(files: AppFiles) -> str:
    """Returns the model's name: that of the project, else that of the folder."""
    text = files.project.name or files.layout.folder.resolve().name
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "inferless-model"
