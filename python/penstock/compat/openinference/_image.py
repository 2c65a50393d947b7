"""Image of a function: its contents, and the record of the built image."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.files import find_definition, parse_file, read_function
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._definition.requirements import requirement_lines
from penstock.images import ImageSpec

__all__ = ["ENVIRONMENT", "describe", "image_spec", "record"]

ENVIRONMENT = "PENSTOCK_OPENINFERENCE_ENVIRONMENT"
"""Environment variable for the option `environment`. Images set it, because they contain the packages already."""

_log = logging.getLogger("penstock.openinference")


def describe(path: Path) -> ImageSpec:
    """Returns the contents of the function's image.

    Raises:
        StartupError: the definition is invalid.
    """
    file = find_definition(path)
    return image_spec(read_function(path), file or path)


def image_spec(
    function: FunctionSpec, file: Path, instructions: Sequence[str] = (), envs: Mapping[str, str] | None = None
) -> ImageSpec:
    """Returns the contents of a function's image. Its ports are upstream's: 8080 for REST, 9000 for gRPC.

    Args:
        function: Function of the image.
        file: File of the definition, which the image serves.
        instructions: Shell commands, run by root before the requirements are installed.
        envs: Environment variables of the image.
    """
    source, files = function.source, [(file, file.name)]
    if source.code is None and source.source is not None and "://" not in source.source:
        path = function.folder / source.source
        # This folder contains the definition as well.
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
        requirements=requirement_lines(function.requirements, function.folder),
        files=tuple(files),
        serve=(file.name,),
        http_port=8080,
        grpc_port=9000,
        record=lambda name: record(file, name),
    )


def record(file: Path, image: str) -> None:
    """Writes the name of the built image to the function's definition, same as upstream. The next serve uses it.

    A YAML file is rewritten if a one-line change is not possible. Its comments are lost then, with a warning.
    """
    entity: dict[str, Any] = dict(parse_file(file))
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
            _log.warning("%s is rewritten, without its comments", file.name)
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, file)


def _with_image(text: str, image: str) -> str | None:
    """Returns the text with the image in `spec` and with its comments; None if `spec` has an unusual form."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.rstrip() != "spec:" or index + 1 >= len(lines):
            continue
        indent = lines[index + 1][: len(lines[index + 1]) - len(lines[index + 1].lstrip())]
        image_line = f"{indent}image: {json.dumps(image)}\n"
        for later in range(index + 1, len(lines)):
            if lines[later].startswith(f"{indent}image:"):
                return "".join([*lines[:later], image_line, *lines[later + 1 :]])
            if lines[later].strip() and not lines[later].startswith(indent):
                break
        return "".join([*lines[: index + 1], image_line, *lines[index + 1 :]]) if indent else None
    return None
