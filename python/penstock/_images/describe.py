"""What an image of a path needs: what its integration says, or its folder, and over that what the user says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from penstock._config import settings
from penstock._images.requirements import read_requirements
from penstock._spec.image import ImageSpec
from penstock.errors import ConfigError, StartupError
from penstock.integrations import _detect
from penstock.integrations import _native as own

__all__ = ["describe", "over", "split"]

_LISTS = ("system_packages", "commands_before", "requirements", "commands_after", "writable", "serve")
_TEXTS = ("base_image", "python_version")
_PORTS = ("http_port", "grpc_port")


def describe(target: str, integration: str | None = None) -> tuple[ImageSpec, str]:
    """What an image of `PATH` or `PATH:object` needs, and the name of the integration that says so.

    Raises:
        StartupError: no integration knows the path, or what is said of the image is wrong.
        ConfigError: the table [image] is wrong.
    """
    path, named = split(target)
    if named or (path.suffix == ".py" and integration is None and not _detect.is_for_integrations(str(path))):
        # A file whose models are imported names nothing of ours.
        chosen = _detect.NATIVE
        _detect.check_exists(path)
    else:
        chosen = _detect.chosen(path, integration)
    spec = _native(path, named) if chosen == _detect.NATIVE else _detect.module(chosen).describe(path)
    folder = path if path.is_dir() else path.parent
    return over(spec, _table(folder), folder), chosen


def split(target: str) -> tuple[Path, str]:
    """The path of a target, and the object's name after its colon."""
    if os.path.exists(target):
        return Path(target), ""
    path, separator, name = target.rpartition(":")
    return (Path(path), name) if separator and os.sep not in name else (Path(target), "")


def over(spec: ImageSpec, said: Mapping[str, Any], folder: Path) -> ImageSpec:
    """A description with what a table or flags say over it: lists are added, all else is replaced.

    Raises:
        ConfigError: a key is unknown, or its value is of another kind.
    """
    known = {one.name for one in fields(ImageSpec)} - {"record"}
    changed: dict[str, Any] = {}
    for name, value in said.items():
        if name not in known:
            raise ConfigError(f"unknown key {name!r} in [image]{settings.suggestion(name, known)}")
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
            _expect(isinstance(value, dict) and _is_texts(list(value.values())), name, value, "a table of places")
            changed[name] = (*spec.files, *((folder / here, place) for here, place in value.items()))
    return replace(spec, **changed)


def _native(path: Path, named: str) -> ImageSpec:
    file = own.file_of(path)
    if file.suffix != ".py":
        raise StartupError(f"{file} is not a Python file; its name must end in .py")
    listed = file.parent / "requirements.txt"
    return ImageSpec(
        requirements=read_requirements(listed) if listed.is_file() else (),
        files=((file.parent, "."),),
        serve=(f"{file.name}:{named}" if named else file.name,),
    )


def _table(folder: Path) -> Mapping[str, Any]:
    file = folder / "penstock.toml"
    if not file.is_file():
        return {}
    table = settings.read_toml(str(file)).get("image", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: image must be a table, written as [image]")
    return table


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _expect(fits: bool, name: str, value: object, expected: str) -> None:
    if not fits:
        raise ConfigError(f"[image] {name} is {value!r}, expected {expected}")
