"""Translation of nuclio functions with a trigger of the kind `openinference` to definitions."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["is_nuclio", "translate_definition"]

_log = logging.getLogger("penstock.openinference")
_INIT = re.compile(r"^(?:async\s+)?def\s+init_context\s*\(", re.MULTILINE)


def is_nuclio(entity: Mapping[str, Any]) -> bool:
    """True if the content of a file is a nuclio function."""
    return entity.get("kind") == "NuclioFunction" or "nuclio" in str(entity.get("apiVersion"))


def translate_definition(entity: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the equivalent definition. Its problems are reported when it is parsed.

    Args:
        entity: Content of a `function.yaml`.
        folder: Folder of the file and of the code.
    """
    metadata, spec = _object(entity, "metadata"), _object(entity, "spec")
    build, trigger = _object(spec, "build"), _trigger(spec)
    attributes, name = _object(trigger, "attributes"), metadata.get("name")
    handler = str(spec.get("handler") or "main:handler")
    module = handler.rpartition(":")[0] or "main"
    source: dict[str, Any] = {"handler": handler if ":" in handler else f"main:{handler}", "source": "."}
    if code := build.get("functionSourceCode"):
        source.update(base64=code, source=f"{module}.py")
    elif _has_init(folder / f"{module.replace('.', '/')}.py"):
        # nuclio calls the function by this name, without a declaration.
        source["init_function"] = "init_context"
    labels = _object(metadata, "labels")
    return {
        "kind": "openinference",
        "project": labels.get("nuclio.io/project-name"),
        "name": name,
        "spec": {
            "source": source,
            "python_version": _python(spec.get("runtime")),
            "model_name": attributes.get("model_name") or name,
            "inputs": attributes.get("input_tensors"),
            "outputs": attributes.get("output_tensors"),
            "base_image": build.get("baseImage"),
            "image": spec.get("image"),
            "requirements": _packages(build.get("commands") or []),
        },
        "penstock": {
            "version": attributes.get("model_version"),
            "replicas": trigger.get("maxWorkers") or trigger.get("numWorkers"),
            "envs": {one["name"]: one.get("value", "") for one in spec.get("env") or [] if isinstance(one, Mapping)},
        },
    }


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, Mapping) else {}


def _trigger(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    triggers = _object(spec, "triggers").values()
    return next((one for one in triggers if isinstance(one, Mapping) and one.get("kind") == "openinference"), {})


def _python(runtime: Any) -> str | None:
    """Translates `python:3.11` to `PYTHON3_11`."""
    found = re.fullmatch(r"python:3\.(\d+)", str(runtime))
    return f"PYTHON3_{found[1]}" if found else runtime


def _packages(commands: list[Any]) -> list[str]:
    """Returns the packages that build commands install with pip. Other commands are for images of nuclio."""
    found: list[str] = []
    for command in map(str, commands):
        words = command.split()
        if words[:2] == ["pip", "install"] and not any(one.startswith("-") for one in words[2:]):
            found += [one.strip("'\"") for one in words[2:]]
        else:
            _log.warning("a command of the function's build is ignored: %s", command)
    return found


def _has_init(file: Path) -> bool:
    try:
        return bool(_INIT.search(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False
