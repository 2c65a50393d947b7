"""Sources of settings, each read into a `Layer`: the file, the environment, the command line, arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._config import other_names, settings
from penstock._config.sockets import inherited
from penstock._config.toml_file import TomlFile, read_toml
from penstock._spec.suggestions import suggestion
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from dataclasses import Field

__all__ = [
    "DEFAULT_FILE",
    "VERTEX_ROUTES",
    "Defaults",
    "Given",
    "Layer",
    "file_name",
    "flag",
    "from_arguments",
    "from_command_line",
    "from_defaults",
    "from_environment",
    "from_file",
    "from_inherited",
    "from_vertex",
]

DEFAULT_FILE = "penstock.toml"

TABLES = ("server", "image")
"""Tables of the file. `penstock build` reads that of images."""

VERTEX_ROUTES = {"vertex_health_route": "AIP_HEALTH_ROUTE", "vertex_predict_route": "AIP_PREDICT_ROUTE"}
"""Variables of Vertex AI by setting."""


class Given(NamedTuple):
    """The value of a setting in one source."""

    value: Any
    origin: str
    """The source, such as `--http`, `PENSTOCK_HTTP`, `penstock.toml:12` or `argument Server(http=)`."""
    in_code: bool = False
    """True for an argument in Python: the traceback of its error has the place."""
    built_in: bool = False
    """True for a default of Penstock, in place of that of the field."""


class Defaults(NamedTuple):
    """Defaults that replace those of the fields."""

    origin: str
    texts: Mapping[str, str]
    """Texts by setting."""
    built_in: bool = False
    """True if Penstock itself has them, and not an integration."""


@dataclass(slots=True)
class Layer:
    """Values of one source, and the problems in it."""

    known: Mapping[str, Field[Any]]
    """Fields of the settings, by name."""
    values: dict[str, Given] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)
    """Settings whose values could not be read."""

    def add(self, name: str, value: Any, origin: str, shown: str, *, built_in: bool = False) -> None:
        """Adds a value, or the problem with it.

        Args:
            name: The setting.
            value: A text, or a value of the file.
            origin: The source.
            shown: The beginning of the message.
            built_in: Whether it is a default of Penstock.
        """
        kind = self.known[name].metadata["kind"]
        try:
            # Text may have units in the file too, and "off" is the form of None.
            read = settings.normalised(kind, settings.parse(kind, value) if isinstance(value, str) else value)
            settings.check(kind, read)
        except ValueError as error:
            self.problems.append(f"{shown}: {error}")
            self.wrong.add(name)
        else:
            self.values[name] = Given(read, origin, built_in=built_in)

    def checked(self) -> Layer:
        """Returns the layer.

        Raises:
            ConfigError: it has a problem; the message is that of the first one.
        """
        if self.problems:
            raise ConfigError(self.problems[0])
        return self


def file_name(path: str | None, environ: Mapping[str, str], folder: str = "") -> str | None:
    """The configuration file: the given one, that of `PENSTOCK_CONFIG`, or the default one if it exists.

    Args:
        path: The given file.
        environ: The environment.
        folder: The folder that names are relative to; empty for the working folder.
    """
    named = path or environ.get("PENSTOCK_CONFIG")
    return named or (DEFAULT_FILE if os.path.exists(os.path.join(folder, DEFAULT_FILE)) else None)


def from_file(path: str | None, known: Mapping[str, Field[Any]], folder: str = "") -> Layer:
    """The table `[server]` of a file; empty without a file. Its name is relative to `folder`."""
    layer = Layer(known)
    if path is not None:
        try:
            _read_tables(read_toml(path, folder), layer)
        except ConfigError as error:
            layer.problems.append(str(error))
    return layer


def _read_tables(file: TomlFile, layer: Layer) -> None:
    known = layer.known
    for name in file.tables:
        if name not in TABLES:
            # A setting at the top of the file is a frequent mistake.
            hint = f"; write {name} below a line [server]" if name in known else suggestion(name, TABLES)
            layer.problems.append(
                f"{file.place(name)}: unknown table or key {name!r}, expected the tables [server] and [image]{hint}"
            )
    server = file.tables.get("server", {})
    if not isinstance(server, dict):
        layer.problems.append(f"{file.place('server')}: server must be a table, written as [server]")
        return
    for name, value in server.items():
        place = file.place("server", name)
        if name in known:
            layer.add(name, value, place, f"{place}: {name}")
        else:
            hint = other_names.hint(name) or suggestion(name, known)
            layer.problems.append(f"{place}: unknown setting {name!r} in [server]{hint}")


def from_environment(environ: Mapping[str, str], known: Mapping[str, Field[Any]]) -> Layer:
    """The variables `PENSTOCK_*`. Unknown ones are ignored: for a service of that name, Kubernetes sets some."""
    return _from_texts(environ, known, lambda name: f"PENSTOCK_{name.upper()}")


def from_command_line(texts: Mapping[str, str], known: Mapping[str, Field[Any]]) -> Layer:
    """Flags, as text by setting."""
    return _from_texts({flag(name): text for name, text in texts.items()}, known, flag)


def from_inherited(environ: Mapping[str, str], known: Mapping[str, Field[Any]]) -> Layer:
    """The addresses of sockets that systemd has opened. Classes without such settings have none."""
    layer = Layer(known)
    try:
        for name, text in inherited.texts(environ).items():
            if name in known:
                layer.add(name, text, "LISTEN_FDNAMES", f"LISTEN_FDNAMES: {name}")
    except ValueError as error:
        layer.problems.append(str(error))
    return layer


def from_defaults(given: Defaults, known: Mapping[str, Field[Any]]) -> Layer:
    """Defaults that precede those of the fields, such as those of an integration."""
    layer = Layer(known)
    for name, text in given.texts.items():
        if name in known:
            layer.add(name, text, given.origin, f"{given.origin}: {name}", built_in=given.built_in)
        else:
            layer.problems.append(f"{given.origin}: unknown setting {name!r}{suggestion(name, known)}")
    return layer


def from_vertex(environ: Mapping[str, str], known: Mapping[str, Field[Any]]) -> Layer:
    """The variables of Vertex AI, which are read only if `vertex` is on."""
    layer = Layer(known)
    for name, variable in VERTEX_ROUTES.items():
        if variable in environ:
            layer.add(name, environ[variable], variable, variable)
    if (port := environ.get("AIP_HTTP_PORT")) is not None:
        try:
            layer.add("http", f"0.0.0.0:{settings.parse('positive', port)}", "AIP_HTTP_PORT", "AIP_HTTP_PORT")
        except ValueError as error:
            layer.problems.append(f"AIP_HTTP_PORT: {error}")
            layer.wrong.add("http")
    return layer


def from_arguments(arguments: Mapping[str, Any], known: Mapping[str, Field[Any]], caller: str) -> Layer:
    """Arguments of a Python call, by setting."""
    layer = Layer(known)
    for name, value in arguments.items():
        if name not in known:
            hint = other_names.hint(name) or suggestion(name, known)
            layer.problems.append(f"unknown setting {name!r}{hint}")
            continue
        kind = known[name].metadata["kind"]
        try:
            read = settings.normalised(kind, value)
            settings.check(kind, read)
        except ValueError as error:
            layer.problems.append(f"{name}: {error}")
            layer.wrong.add(name)
        else:
            layer.values[name] = Given(read, f"argument {caller}({name}=)", in_code=True)
    return layer


def flag(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")


def _from_texts(texts: Mapping[str, str], known: Mapping[str, Field[Any]], key: Callable[[str], str]) -> Layer:
    layer = Layer(known)
    for name in known:
        if (text := texts.get(key(name))) is not None:
            layer.add(name, text, key(name), key(name))
    return layer
