"""TOML files: their tables, and the lines of their keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.errors import ConfigError

__all__ = ["TomlFile", "loads", "read_toml"]

MAX_BYTES = 1 << 20
"""Most bytes of a file. A ConfigMap of Kubernetes has at most as many."""

Path = tuple[str, ...]
"""A key below the keys of its tables."""

_MAY_END = re.compile(r"[\]}]|\"\"\"|'''")
"""Ends of values that go over several lines."""


class TomlFile(NamedTuple):
    """A file that was read."""

    path: str
    tables: dict[str, Any]
    lines: Mapping[Path, int]
    """Line of each key and table, from 1; the first one of a table."""

    def place(self, *keys: str) -> str:
        """`FILE:LINE` of a key below the keys of its tables."""
        return f"{self.path}:{self.lines[keys]}" if keys in self.lines else self.path


def loads(text: str) -> dict[str, Any]:
    """The tables of a text.

    Raises:
        ValueError: it is not TOML.
    """
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found]
    return dict(tomllib.loads(text))


def read_toml(path: str, folder: str = "") -> TomlFile:
    """Reads a file, whose name is relative to `folder`, or to the working folder.

    Raises:
        ConfigError: it cannot be read, is too large, or is not TOML.
    """
    try:
        with open(os.path.join(folder, path), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    try:
        text = content.decode()
        tables = loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return TomlFile(path, tables, _lines(text, loads))


def _lines(text: str, loads: Callable[[str], dict[str, Any]]) -> dict[Path, int]:
    """The line of each key of valid TOML.

    A statement ends with the first line up to which it is valid by itself, since no part of a value is a value.
    """
    found: dict[Path, int] = {}
    table: Path = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement.append(line)
        if len(statement) > 1 and not _MAY_END.search(line):
            continue
        try:
            parsed = loads("\n".join(statement))
        except ValueError:
            continue
        is_header = statement[0].lstrip().startswith("[")
        paths = [*_paths(parsed)]
        for path in paths:
            found.setdefault(path if is_header else (*table, *path), number - len(statement) + 1)
        table = paths[-1] if is_header else table
        statement = []
    return found


def _paths(parsed: Any, above: Path = ()) -> Iterator[Path]:
    """The paths of all keys below a value, outer ones first."""
    if isinstance(parsed, list):
        # The table of a header [[name]].
        parsed = parsed[0] if len(parsed) == 1 else None
    if isinstance(parsed, dict):
        for key, value in parsed.items():
            yield (*above, key)
            yield from _paths(value, (*above, key))
