"""What an image of a function needs, and the image that was made of it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.files import definition_in, function_at, parsed
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._definition.requirements import lines_of
from penstock.images import ImageSpec

__all__ = ["ENVIRONMENT", "describe", "image_of", "record"]

ENVIRONMENT = "PENSTOCK_OPENINFERENCE_ENVIRONMENT"
"""The environment variable that stands for the option `environment`: an image has the packages already."""

_log = logging.getLogger("penstock.openinference")


def describe(path: Path) -> ImageSpec:
    """What an image of the function needs.

    Raises:
        StartupError: it breaks rules.
    """
    file = definition_in(path)
    return image_of(function_at(path), file or path)


def image_of(
    function: FunctionSpec, file: Path, instructions: Sequence[str] = (), envs: Mapping[str, str] | None = None
) -> ImageSpec:
    """What an image needs. It listens where upstream's does: 8080 for REST, 9000 for gRPC.

    Args:
        function: Which.
        file: Its definition, which is served in the image.
        instructions: Shell lines, run by root before the requirements are installed.
        envs: Variables of the image.
    """
    source, files = function.source, [(file, file.name)]
    if source.code is None and source.source is not None and "://" not in source.source:
        path = function.folder / source.source
        # A folder that has the definition in it brings it along.
        if path.is_dir() and file.parent.resolve() == path.resolve():
            files = [(path, ".")]
        else:
            files.append((path, os.path.normpath(source.source)))
    if isinstance(function.requirements, str) and (function.folder / function.requirements).is_file():
        files.append((function.folder / function.requirements, os.path.normpath(function.requirements)))
    return ImageSpec(
        base_image=function.base_image,
        python_version=function.python_version,
        env={**(envs or {}), ENVIRONMENT: "none"},
        commands_before=tuple(instructions),
        requirements=lines_of(function.requirements, function.folder),
        files=tuple(files),
        serve=(file.name,),
        http_port=8080,
        grpc_port=9000,
        record=lambda name: record(file, name),
    )


def record(file: Path, image: str) -> None:
    """Notes in a function's definition which image was made of it, as upstream does: the next serve uses it.

    A file in YAML is written anew: its comments are lost, which a line in the log says.
    """
    entity: dict[str, Any] = dict(parsed(file))
    spec = dict(entity.get("spec") or {})
    if spec.get("image") == image:
        return
    entity["spec"] = {**spec, "image": image}
    if file.suffix.lower() == ".json":
        text = json.dumps(entity, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml

        text = _with_image(file.read_text(encoding="utf-8"), image) or yaml.safe_dump(entity, sort_keys=False)
        if yaml.safe_load(text) != entity:
            text = yaml.safe_dump(entity, sort_keys=False)
            _log.warning("%s is written anew, without its comments", file.name)
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, file)


def _with_image(text: str, image: str) -> str | None:
    """The same text with the image in `spec`, comments and all; None where that is not plain."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.rstrip() != "spec:" or index + 1 >= len(lines):
            continue
        indent = lines[index + 1][: len(lines[index + 1]) - len(lines[index + 1].lstrip())]
        said = f"{indent}image: {json.dumps(image)}\n"
        for later in range(index + 1, len(lines)):
            if lines[later].startswith(f"{indent}image:"):
                return "".join([*lines[:later], said, *lines[later + 1 :]])
            if lines[later].strip() and not lines[later].startswith(indent):
                break
        return "".join([*lines[: index + 1], said, *lines[index + 1 :]]) if indent else None
    return None
