"""Resolution of settings: the value of each one, with its origin and the values that it takes precedence over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock._config import other_names, rules, sources
from penstock._config.sources import Defaults, Given, Layer
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from dataclasses import Field

__all__ = ["Resolved", "Sources", "resolve"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Sources of settings, by falling precedence."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Values given in Python, by setting."""
    base: object = None
    """A complete configuration, instead of all sources below."""
    command_line: Mapping[str, str] = field(default_factory=dict)
    """Flags as text, by setting."""
    environ: Mapping[str, str] | None = None
    """The environment; None for `os.environ`."""
    file: str | None = None
    """The configuration file; default: `PENSTOCK_CONFIG`, else `penstock.toml` if it exists."""
    defaults: Sequence[Defaults] = ()
    """Defaults that replace those of the fields; later ones take precedence."""
    folder: str = ""
    """The folder that the name of the file is relative to; empty for the working folder."""
    caller: str = "Server"
    """The function that has the arguments."""


@dataclass(frozen=True, slots=True)
class Resolved(Generic[T]):
    """Settings of all sources."""

    kind: type[T]
    """The class of the configuration."""
    given: Mapping[str, Sequence[Given]]
    """Values of each setting that is given, the one that counts first."""
    values: Mapping[str, Any]
    """The value of each setting; the default if it is not given, or wrong."""
    wrong: Set[str]
    """Settings whose values are wrong, and those that a broken rule is about."""
    problems: Sequence[str]
    """All that is wrong, a message each."""
    file: str | None
    """The configuration file; None if none is read."""
    in_file: int = 0
    """Number of settings that the file has."""

    def config(self) -> T:
        """The configuration.

        Raises:
            ConfigError: a setting is wrong; the message is that of the first one.
        """
        if self.problems:
            raise ConfigError(self.problems[0])
        return self.kind(**{name: given[0].value for name, given in self.given.items()})

    def placed(self, message: str) -> str:
        """A message that begins with a setting's name, with the place of its value."""
        first = next(iter(self.given.get(message.partition(":")[0], ())), None)
        return message if first is None or first.in_code else f"{message} ({first.origin})"


def resolve(kind: type[T], given: Sources) -> Resolved[T]:
    """Resolves the settings of a configuration class, whose fields have the metadata `kind`.

    Never fails: `Resolved.problems` has what is wrong.
    """
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    arguments = sources.from_arguments(given.arguments, known, given.caller)
    if given.base is not None:
        origin = f"argument {given.caller}(config=)"
        values = {name: Given(getattr(given.base, name), origin, in_code=True) for name in known}
        return _merged(kind, known, [Layer(known, values), arguments], None)
    environ = os.environ if given.environ is None else given.environ
    path = sources.file_name(given.file, environ, given.folder)
    file = sources.from_file(path, known, given.folder)
    layers = [
        *(sources.from_defaults(one, known) for one in given.defaults),
        file,
        sources.from_environment(environ, known),
        sources.from_command_line(given.command_line, known),
        sources.from_inherited(environ, known),
        arguments,
    ]
    other_names.warn_of_variables(environ, known)
    if (vertex := _first("vertex", layers)) is not None and vertex.value is True:
        layers.insert(len(given.defaults), sources.from_vertex(environ, known))
    return replace(_merged(kind, known, layers, path), in_file=len(file.values))


def _merged(kind: type[T], known: Mapping[str, Field[Any]], layers: Sequence[Layer], path: str | None) -> Resolved[T]:
    """Layers, the lowest first, with the rules about their values."""
    ordered = [*reversed(layers)]
    given = {name: [layer.values[name] for layer in ordered if name in layer.values] for name in known}
    given = {name: values for name, values in given.items() if values}
    values = {name: given[name][0].value if name in given else entry.default for name, entry in known.items()}
    wrong = {name for layer in layers for name in layer.wrong}
    found = [problem for layer in layers for problem in layer.problems]
    broken = [*rules.broken(values, wrong)]
    wrong.update(name for rule in broken for name in rule.settings)
    resolved = Resolved(kind, given, values, wrong, found, path)
    found += [resolved.placed(rule.message) for rule in broken]
    return resolved


def _first(name: str, layers: Sequence[Layer]) -> Given | None:
    """The value of a setting that counts; None if no layer has one."""
    return next((layer.values[name] for layer in reversed(layers) if name in layer.values), None)
