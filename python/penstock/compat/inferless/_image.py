"""Images of apps, for `penstock build`, and conversion of `cog.yaml` to a runtime file."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.compat.inferless._spec.app_files import model_name, read_app
from penstock.compat.inferless._spec.runtime import IMAGES, cuda_of_cog
from penstock.compat.inferless._spec.yaml_file import read_mapping
from penstock.images import ImageSpec

__all__ = ["describe", "runtime_of_cog"]


def describe(path: Path) -> ImageSpec:
    """Returns the image requirements of an app, from its runtime file.

    Raises:
        StartupError: `app.py` is missing, or a file is invalid.
    """
    files = read_app(path)
    layout, runtime = files.layout, files.runtime
    base, python = IMAGES[runtime.cuda] if runtime.cuda else (None, None)
    requirements = list(runtime.python_packages)
    listed = {re.split(r"[\s\[<>=!~;@]", one, maxsplit=1)[0].lower() for one in requirements}
    needs = {"pyyaml": bool(layout.project or layout.runtime), "pydantic": _uses_pydantic(layout.required_app())}
    requirements += [
        f"{name}>={'6' if name == 'pyyaml' else '2'}" for name, one in needs.items() if one and name not in listed
    ]
    name = model_name(files)
    return ImageSpec(
        base_image=base,
        python_version=python,
        env=dict(files.project.env),
        system_packages=runtime.system_packages,
        requirements=tuple(requirements),
        commands_after=runtime.commands,
        files=((layout.folder, name),),
        # The app's working directory, which some apps write to.
        writable=(f"/app/{name}",),
        serve=(name,),
    )


def runtime_of_cog(path: Path) -> str:
    """Returns the text of a runtime file equivalent to a `cog.yaml`.

    Raises:
        StartupError: the file is invalid, or its CUDA version is older than 11.
    """
    build = read_mapping(path).get("build") or {}
    lines = ["build:"]
    if build.get("cuda"):
        lines.append(f"  cuda_version: {cuda_of_cog(str(build['cuda']))}")
    for key in ("system_packages", "python_packages", "run"):
        if build.get(key):
            lines += [f"  {key}:", *(f"    - {_quoted(str(one))}" for one in build[key])]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _uses_pydantic(app: Path) -> bool:
    return re.search(r"^\s*(from|import)\s+pydantic\b", app.read_text(encoding="utf-8"), re.MULTILINE) is not None
