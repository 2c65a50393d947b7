"""`describe`: what an image of an app needs; and `cog.yaml`, as a runtime file."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.compat.inferless._load import name_of, read
from penstock.compat.inferless._spec.runtime import IMAGES, cuda_of_cog
from penstock.compat.inferless._spec.yaml_file import read_yaml
from penstock.images import ImageSpec

__all__ = ["describe", "runtime_of_cog"]


def describe(path: Path) -> ImageSpec:
    """What an image of an app needs, as its runtime file says.

    Raises:
        StartupError: there is no app, or a file says what cannot be.
    """
    found = read(path)
    layout, runtime = found.layout, found.runtime
    base, python = IMAGES[runtime.cuda] if runtime.cuda else (None, None)
    requirements = list(runtime.python_packages)
    has = {re.split(r"[\s\[<>=!~;@]", one, maxsplit=1)[0].lower() for one in requirements}
    needs = {"pyyaml": bool(layout.project or layout.runtime), "pydantic": _uses_pydantic(layout.required_app())}
    requirements += [
        f"{name}>={'6' if name == 'pyyaml' else '2'}" for name, one in needs.items() if one and name not in has
    ]
    name = name_of(found)
    return ImageSpec(
        base_image=base,
        python_version=python,
        env=dict(found.project.env),
        system_packages=runtime.system_packages,
        requirements=tuple(requirements),
        commands_after=runtime.commands,
        files=((layout.folder, name),),
        # Apps run in their folder, and some write there.
        writable=(f"/app/{name}",),
        serve=(name,),
    )


def runtime_of_cog(path: Path) -> str:
    """The text of a runtime file that says what a `cog.yaml` does.

    Raises:
        StartupError: it cannot be read, or wants a CUDA that there is not.
    """
    build = read_yaml(path).get("build") or {}
    lines = ["build:"]
    if build.get("cuda"):
        lines.append(f"  cuda_version: {cuda_of_cog(str(build['cuda']))}")
    for theirs, ours in (
        ("system_packages", "system_packages"),
        ("python_packages", "python_packages"),
        ("run", "run"),
    ):
        if build.get(theirs):
            lines += [f"  {ours}:", *(f"    - {_quoted(str(one))}" for one in build[theirs])]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _uses_pydantic(app: Path) -> bool:
    return re.search(r"^\s*(from|import)\s+pydantic\b", app.read_text(encoding="utf-8"), re.MULTILINE) is not None
