"""`ServedSettings`: the settings of a server with their origins, their description, and their reading again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock._config.report import Row, rows_of, to_json
from penstock._config.resolve import Resolved, Sources, resolve
from penstock._config.settings import SECRETS
from penstock._config.value_text import shown
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from dataclasses import Field

__all__ = ["Change", "Description", "Reading", "ServedSettings"]

T = TypeVar("T")

_HASH_LENGTH = 16

_VARIABLES = ("PENSTOCK_", "AIP_", "LISTEN_")
"""Beginnings of the variables that are read."""


class Description(NamedTuple):
    """Settings as operators see them. Rust reads it."""

    document: bytes
    """JSON of each setting with its value, origin and shadowed values, and of the models' options."""
    digest: str
    """Hash of the values, without secrets: equal for servers with equal settings, whatever their origins."""


class Change(NamedTuple):
    """A setting whose sources have another value than at the start, or at the last reading."""

    name: str
    before: str
    after: str
    """Values as text."""
    is_live: bool
    """True if it is in force; others need a restart."""

    def __str__(self) -> str:
        # Equal texts are those of two secrets.
        values = "" if self.before == self.after else f" from {self.before} to {self.after}"
        return f"{self.name} changed{values}{'' if self.is_live else ': needs a restart'}"


class Reading(NamedTuple):
    """A reading of the settings while the server runs."""

    in_file: int
    """Number of settings that the file has."""
    changes: Sequence[Change]

    def lines(self) -> Iterator[str]:
        """The changes, and a summary."""
        yield from map(str, self.changes)
        changed = sum(change.is_live for change in self.changes)
        waiting = len(self.changes) - changed
        text = f"{self.in_file} setting{'' if self.in_file == 1 else 's'} read, {changed} changed"
        yield f"{text}, {waiting} need{'s' if waiting == 1 else ''} a restart" if waiting else text


@dataclass(frozen=True, slots=True)
class ServedSettings(Generic[T]):
    """The settings of a server.

    Attributes:
        config: The configuration in force.
    """

    config: T
    _given: Sources
    """The sources, with the environment and the working folder of the start."""
    _resolved: Resolved[T]
    """The values in force, with their origins."""
    _waiting: Mapping[str, Row] = field(default_factory=dict)
    """Other values of the sources, which need a restart."""

    @classmethod
    def of(cls, kind: type[T], given: Sources) -> ServedSettings[T]:
        """Reads the settings.

        Args:
            kind: The class of the configuration.
            given: The sources.

        Raises:
            ConfigError: a setting is wrong; the message is that of the first one.
        """
        environ = os.environ if given.environ is None else given.environ
        kept = {name: text for name, text in environ.items() if name.startswith(_VARIABLES)}
        given = replace(given, environ=kept, folder=given.folder or _working_folder())
        resolved = resolve(kind, given)
        return cls(resolved.config(), given, resolved)

    def read_again(self) -> tuple[ServedSettings[T], Reading]:
        """Reads the sources again. Returns the settings with the changes of live ones, and all changes.

        Raises:
            ConfigError: a setting is wrong; the message has all that is wrong, a line each.
        """
        now = self._resolved
        # A file that was read has to be there: without it, settings would silently have their defaults.
        found = resolve(now.kind, replace(self._given, file=now.file or self._given.file))
        if found.problems:
            raise ConfigError("\n".join(found.problems))
        known = _fields(now.kind)
        differing = [name for name in known if now.values[name] != found.values[name]]
        live = {name for name in differing if known[name].metadata["live"]}
        waiting = {name for name in differing if name not in live}
        before, after = ({row.name: row for row in rows_of(one)} for one in (now, found))
        try:
            config = replace(self.config, **{name: found.values[name] for name in live})  # type: ignore[type-var]
        except ConfigError as error:
            raise ConfigError(found.placed(str(error))) from None
        resolved = replace(
            found,
            given={**found.given, **{name: now.given.get(name, ()) for name in waiting}},
            values={**found.values, **{name: now.values[name] for name in waiting}},
        )
        changes = [Change(name, before[name].text, after[name].text, name in live) for name in differing]
        served = ServedSettings(config, self._given, resolved, {name: after[name] for name in waiting})
        return served, Reading(found.in_file, changes)

    def describe(self, models: Sequence[Any]) -> Description:
        """The settings in force.

        Args:
            models: The options of the models, as JSON.
        """
        settings = to_json(rows_of(self._resolved))
        for name, row in self._waiting.items():
            settings[name]["needs_restart"] = {"value": row.value, "origin": row.origin}
        # `import penstock` does not load it.
        import json

        document = {"file": self._resolved.file, "settings": settings, "models": models}
        return Description(json.dumps(document).encode(), self._digest())

    def _digest(self) -> str:
        import hashlib

        kinds = {name: entry.metadata["kind"] for name, entry in _fields(self._resolved.kind).items()}
        # A hash of a secret could be searched for.
        values = {name: _text(kind, self._resolved.values[name]) for name, kind in kinds.items() if kind not in SECRETS}
        text = "\0".join(f"{name}={value}" for name, value in sorted(values.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def _fields(kind: type[Any]) -> dict[str, Field[Any]]:
    return {entry.name: entry for entry in fields(kind)}


def _text(kind: str, value: Any) -> str:
    """A value as a text that is equal for 1 and 1.0."""
    return str(float(value)) if kind == "share" else shown(kind, value)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        # It was removed.
        return ""
