"""Description of a path's image: from its integration or folder, with the user's overrides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from penstock._config.schema import table
from penstock._config.toml_file import read_toml
from penstock._images.requirements import read_requirements
from penstock._spec.image import ImageSpec
from penstock._spec.suggestions import suggestion
from penstock.errors import ConfigError, StartupError
from penstock.integrations import _detect
from penstock.integrations import _native as own

__all__ = ["describe", "override", "problems", "schema", "split"]

_LISTS = ("system_packages", "commands_before", "requirements", "commands_after", "writable", "serve")
_TEXTS = ("base_image", "python_version")
_PORTS = ("http_port", "grpc_port")


def describe(target: str, integration: str | None = None) -> tuple[ImageSpec, str]:
    """The image description of `PATH` or `PATH:object`, and the name of the integration.

    Raises:
        StartupError: no integration recognises the path, or the description is wrong.
        ConfigError: the table [image] is wrong.
    """
    path, object_name = split(target)
    if object_name or (path.suffix == ".py" and integration is None and not _detect.is_for_integrations(str(path))):
        # A Python file without an integration is served by its own models.
        chosen = _detect.NATIVE
        _detect.check_exists(path)
    else:
        chosen = _detect.chosen(path, integration)
    spec = _native(path, object_name) if chosen == _detect.NATIVE else _detect.module(chosen).describe(path)
    folder = path if path.is_dir() else path.parent
    return override(spec, _table(folder), folder), chosen


def split(target: str) -> tuple[Path, str]:
    """The path of a target, and the name of the object after the colon."""
    if os.path.exists(target):
        return Path(target), ""
    path, separator, name = target.rpartition(":")
    return (Path(path), name) if separator and os.sep not in name else (Path(target), "")


def override(spec: ImageSpec, values: Mapping[str, Any], folder: Path) -> ImageSpec:
    """A description with overrides from a table or flags: lists are appended, other values replaced.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    known = {field.name for field in fields(ImageSpec)} - {"record"}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"unknown key {name!r} in [image]{suggestion(name, known)}")
        if name == "requirements" and isinstance(value, str):
            changed[name] = (*spec.requirements, *read_requirements(folder / value))
        elif name in _LISTS:
            _expect(_is_texts(value), name, value, "a list of texts")
            changed[name] = (*getattr(spec, name), *value)
        elif name in _TEXTS:
            _expect(isinstance(value, str), name, value, "a text")
            changed[name] = value
        elif name in _PORTS:
            off = name == "grpc_port" and value == "off"
            _expect(off or (isinstance(value, int) and not isinstance(value, bool)), name, value, "a port")
            changed[name] = None if off else value
        elif name == "env":
            _expect(isinstance(value, dict) and _is_texts(list(value.values())), name, value, "a table of texts")
            changed[name] = {**spec.env, **value}
        else:
            _expect(isinstance(value, dict) and _is_texts(list(value.values())), name, value, "a table of paths")
            changed[name] = (*spec.files, *((folder / source, target) for source, target in value.items()))
    return replace(spec, **changed)


def problems(file: str) -> Iterator[str]:
    """Messages about the table [image] of a configuration file. One that cannot be read has none."""
    try:
        found = read_toml(file)
    except ConfigError:
        return
    values = found.tables.get("image", {})
    if not isinstance(values, dict):
        yield f"{found.place('image')}: image must be a table, written as [image]"
        return
    for name, value in values.items():
        try:
            override(ImageSpec(), {name: value}, Path(file).parent)
        except StartupError as error:
            yield f"{found.place('image', name)}: {error}"


def schema() -> dict[str, Any]:
    """The JSON Schema of the table [image]."""
    text = {"type": "string"}
    texts, table_of_texts = {"type": "array", "items": text}, {"type": "object", "additionalProperties": text}
    off = {"grpc_port": ["off"]}
    keys: dict[str, Any] = {}
    for name in (field.name for field in fields(ImageSpec) if field.name != "record"):
        if name in _PORTS:
            port = {"type": "integer"}
            keys[name] = {"anyOf": [port, {"enum": off[name]}]} if name in off else port
        else:
            keys[name] = texts if name in _LISTS else text if name in _TEXTS else table_of_texts
    # The file of requirements, or their list.
    keys["requirements"] = {"anyOf": [texts, text]}
    return table(keys)


def _native(path: Path, object_name: str) -> ImageSpec:
    file = own.file_of(path)
    if file.suffix != ".py":
        raise StartupError(f"{file} is not a Python file; its name must end in .py")
    requirements = file.parent / "requirements.txt"
    return ImageSpec(
        requirements=read_requirements(requirements) if requirements.is_file() else (),
        files=((file.parent, "."),),
        serve=(f"{file.name}:{object_name}" if object_name else file.name,),
    )


def _table(folder: Path) -> Mapping[str, Any]:
    file = folder / "penstock.toml"
    if not file.is_file():
        return {}
    values = read_toml(str(file)).tables.get("image", {})
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: image must be a table, written as [image]")
    return values


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _expect(fits: bool, name: str, value: object, expected: str) -> None:
    if not fits:
        raise ConfigError(f"[image] {name} is {value!r}, expected {expected}")
