"""`metadata.yaml` of a deployment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.integrations.files import read_yaml

__all__ = ["Column", "Metadata", "read_metadata"]

NAME = re.compile(r"[A-Za-z0-9_]+")
"""Valid names of deployments."""


@dataclass(frozen=True)
class Column:
    """A column of a function's DataFrame."""

    name: str
    dtype: str | None = None


@dataclass(frozen=True)
class Metadata:
    """The fields of `metadata.yaml` that Penstock uses."""

    main_function: str
    """Name of the served function in source.py."""
    main_function_args: tuple[str, ...] = ()
    """Its arguments, as `name:type`."""
    python_version: str | None = None
    columns: tuple[Column, ...] | None = None
    """Columns of the DataFrame in DataFrame mode; else None."""
    system_packages: tuple[str, ...] = ()
    base_image: str | None = None
    capabilities: tuple[str, ...] = ()
    rate_limit: str | None = None


def read_metadata(path: Path) -> Metadata:
    """Reads a deployment's `metadata.yaml`.

    Raises:
        StartupError: a key is missing or has the wrong type; the message names it.
    """
    found = read_yaml(path, extra="modelbit")
    if not isinstance(found, dict):
        raise StartupError(f"{path} must be a mapping with the key runtimeInfo")
    if found.get("schemaVersion", 2) != 2:
        raise StartupError(f"{path}: schemaVersion is {found['schemaVersion']!r}, expected 2")
    runtime = found.get("runtimeInfo")
    if not isinstance(runtime, dict):
        raise StartupError(f"{path} has no runtimeInfo with a mainFunction")
    reader = _FieldReader(path, {**runtime, **{key: value for key, value in found.items() if key not in runtime}})
    main = reader.text("mainFunction")
    if main is None or not main.isidentifier():
        raise StartupError(
            f"{path}: runtimeInfo.mainFunction is {main!r}, expected the name of a function in source.py"
        )
    return Metadata(
        main_function=main,
        main_function_args=reader.texts("mainFunctionArgs"),
        python_version=reader.text("pythonVersion"),
        columns=reader.columns("dataframeModeColumns"),
        system_packages=reader.texts("systemPackages"),
        base_image=reader.text("baseImage"),
        capabilities=reader.texts("capabilities"),
        rate_limit=reader.text("rateLimit"),
    )


class _FieldReader:
    """Typed access to the values of a mapping."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self._path, self._values = path, values

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        raise StartupError(f"{self._path}: {key} is {value!r}, expected a text")

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise StartupError(f"{self._path}: {key} is {value!r}, expected a list of texts")
        return tuple(value)

    def columns(self, key: str) -> tuple[Column, ...] | None:
        value = self._values.get(key)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(one, dict) and "name" in one for one in value)
        ):
            raise StartupError(
                f"{self._path}: {key} is {value!r}, expected a list of columns, each with a name and a dtype"
            )
        return tuple(Column(str(one["name"]), None if one.get("dtype") is None else str(one["dtype"])) for one in value)
