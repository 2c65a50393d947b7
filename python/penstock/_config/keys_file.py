"""The file of keys: adding, listing and revoking entries. The server itself reads it in Rust.

Edits keep comments and the order of entries, and replace the file in one step.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from penstock._config.toml_file import loads
from penstock.errors import ConfigError

PREFIX = "psk_"
"""Begins each generated key, so that scanners of source code find it."""

_SHORTEST = 24
"""Least characters of a key that an operator chooses: its digest has no salt."""

_TABLE = re.compile(r"\s*\[\[\s*key\s*\]\]")
_ANY_TABLE = re.compile(r"\s*\[")


class Entry(NamedTuple):
    """An entry to add."""

    name: str
    digest: str
    scopes: Sequence[str]
    models: Sequence[str]
    expires: date | None
    limits: Mapping[str, str | int]
    """`rate`, `burst` and `concurrency`, as far as they are given."""


def generate() -> str:
    """A new key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """The digest of a key that the file has.

    Raises:
        ValueError: the key is too short to be safe, or no header can carry it.
    """
    if len(key) < _SHORTEST:
        raise ValueError(f"the key has {len(key)} characters, at least {_SHORTEST} are needed")
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise ValueError("the key is not printable ASCII text without spaces around it")
    return hashlib.sha256(key.encode()).hexdigest()


def entries(path: str) -> list[dict[str, Any]]:
    """The entries of a file as they are written.

    Raises:
        ConfigError: the file cannot be read, or has a problem.
    """
    _check(path, path)
    found: list[dict[str, Any]] = loads(_read(path)).get("key", [])
    return found


def add(path: str, entry: Entry) -> None:
    """Adds an entry, to a new file if there is none.

    Raises:
        ConfigError: the entry is wrong, or its name is taken.
    """
    text = _read(path) if os.path.exists(path) else ""
    lines = ["[[key]]", f"name = {_quoted(entry.name)}", f'sha256 = "{entry.digest}"']
    if entry.scopes:
        lines.append(f"scopes = [{', '.join(map(_quoted, entry.scopes))}]")
    if entry.models:
        lines.append(f"models = [{', '.join(map(_quoted, entry.models))}]")
    if entry.expires is not None:
        lines.append(f"expires = {entry.expires.isoformat()}")
    lines += [f"{name} = {_quoted(value) if isinstance(value, str) else value}" for name, value in entry.limits.items()]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    _write(path, f"{text}{gap}" + "\n".join(lines) + "\n")


def revoke(path: str, name: str) -> None:
    """Removes an entry.

    Raises:
        ConfigError: there is none of that name.
    """
    names = [entry.get("name") for entry in entries(path)]
    if name not in names:
        raise ConfigError(f"{path}: no key has the name {name!r}")
    lines = _read(path).splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _TABLE.match(line)]
    if len(starts) != len(names):
        raise ConfigError(f"{path}: its keys are not written as [[key]]: remove {name!r} by hand")
    start = starts[names.index(name)]
    after = (number for number in range(start + 1, len(lines)) if _ANY_TABLE.match(lines[number]))
    end = next(after, len(lines))
    # Comments in front of the next table are its own.
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    _write(path, "".join(lines[:start] + lines[end:]).lstrip("\n"))


def is_expired(entry: dict[str, Any], now: datetime) -> bool:
    """Returns whether an entry's key is no longer valid."""
    expires = entry.get("expires")
    if expires is None:
        return False
    if not isinstance(expires, datetime):
        expires = datetime(expires.year, expires.month, expires.day, tzinfo=now.tzinfo)
    return bool(now >= (expires if expires.tzinfo else expires.replace(tzinfo=now.tzinfo)))


def _quoted(text: str) -> str:
    import json

    # JSON's escapes are among those of TOML's basic strings.
    return json.dumps(text)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ConfigError(f"{path}: cannot be read as text") from None


def _check(path: str, shown: str) -> None:
    from penstock import _core

    try:
        _core.check_keys_file(path)
    except ValueError as error:
        raise ConfigError(str(error).replace(os.path.basename(path), os.path.basename(shown))) from None


def _write(path: str, text: str) -> None:
    """Replaces the file in one step, once the new one is checked: the server may read it at any time."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".keys-")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            with suppress(FileNotFoundError):
                found = os.stat(path)
                os.fchmod(file.fileno(), found.st_mode & 0o777)
                with suppress(PermissionError):
                    os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fsync(file.fileno())
        _check(temporary, path)
        os.replace(temporary, os.path.realpath(path))
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
