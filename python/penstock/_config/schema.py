"""JSON Schema of `penstock.toml`, from the fields of the settings. Editors complete and check files with it.

It accepts all that the server accepts. Of texts it checks the form only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from penstock._config import access, listeners, settings
from penstock._config.value_text import shown

__all__ = ["document", "of_kind", "table"]

Schema = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest draft that taplo and the extension Even Better TOML read."""

_NUMBER = r"[0-9]{1,16}(\.[0-9]{1,9})?"
_HOST = r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\s,:/\[\]]+)"
_ADDRESS = rf"({listeners.PROXY})?({listeners.PLAIN})?(unix:[^,]+|({_HOST}?:)?[0-9]{{1,5}})"
_ENTRY = rf"({'|'.join(listeners.KINDS)})={_ADDRESS}"
_NAMED_HOST = r"(\*|[A-Za-z0-9_.-]*[A-Za-z0-9_-]|\[[0-9A-Fa-f:.]+\])"
_ORIGIN = r"(\*|[A-Za-z][A-Za-z0-9+.-]*://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)"
_NETWORK = r"(unix|[0-9A-Fa-f.:]+(/[0-9]{1,3})?)"
_MOST_AMOUNT = 2**31 - 1


def document(kind: type[Any], image: Schema) -> Schema:
    """The schema of the file.

    Args:
        kind: The class of the settings, whose fields are the keys of `[server]`.
        image: The schema of `[image]`.
    """
    keys: dict[str, Schema] = {}
    for entry in fields(kind):
        live = "; a reload changes it" if entry.metadata["live"] else ""
        text = f"{entry.metadata['help']} (default: {shown(entry.metadata['kind'], entry.default)}{live})"
        keys[entry.name] = {"description": text, **of_kind(entry.metadata["kind"])}
    server = {"description": "Settings of penstock serve.", **table(keys)}
    image = {"description": "Settings of penstock build.", **image}
    return {"$schema": _DRAFT, "title": "penstock.toml", **table({"server": server, "image": image})}


def table(keys: Mapping[str, Schema]) -> Schema:
    """A table with no other keys."""
    return {"type": "object", "properties": dict(keys), "additionalProperties": False}


def of_kind(kind: str) -> Schema:
    """The schema of the values of a kind of settings."""
    if words := settings.choices(kind):
        # TOML reads a version as a number.
        return {"enum": [*words, *(float(word) for word in words if re.fullmatch(_NUMBER, word))]}
    if kind in settings.INTEGERS:
        return _integer(kind)
    return _OTHERS[kind]


def _text(*patterns: str) -> Schema:
    """Texts of one of these forms, with spaces around them."""
    return {"type": "string", "pattern": rf"^\s*({'|'.join(patterns)})\s*$"}


def _any_case(words: Iterable[str]) -> str:
    """A pattern of words in upper or lower case, for which patterns of JSON Schema have no flag."""
    return "|".join(re.sub("[a-z]", lambda found: f"[{found[0].upper()}{found[0]}]", word) for word in words)


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas]}


def _integer(kind: str) -> Schema:
    least, most, _ = settings.INTEGERS[kind]
    number = {"type": "integer", "minimum": least, "maximum": most}
    if kind in ("count", "positive"):
        return _either(number, _text("[0-9]{1,16}"))
    auto = [_any_case(["auto"])] if kind == "size|auto" else []
    return _either(number, _text(rf"{_NUMBER}\s*({_any_case(filter(None, settings.SIZE_UNITS))})?", *auto))


def _number(most: float, pattern: str) -> Schema:
    return _either({"type": "number", "minimum": 0, "maximum": most}, _text(pattern))


def _list(item: str | None = None) -> Schema:
    """A list of texts, or one text with commas between them."""
    entry: Schema = {"type": "string", "minLength": 1} if item is None else {"type": "string", "pattern": f"^{item}$"}
    together: Schema = {"type": "string"} if item is None else _text(rf"({item})?(\s*,\s*({item})?)*")
    return _either({"type": "array", "items": entry}, together)


_OFF = _any_case(access.OFF)
_PRINTED: Schema = {"type": "string", "pattern": r"\S"}

_OTHERS: Mapping[str, Schema] = {
    "address": _either({"type": "integer", "minimum": 0, "maximum": 65535}, _text(_ADDRESS, _OFF)),
    "address|same": _either({"type": "integer", "minimum": 0, "maximum": 65535}, _text(_ADDRESS, "same", _OFF)),
    "listeners": _list(_ENTRY),
    "hosts": _list(_NAMED_HOST),
    "origins": _list(_ORIGIN),
    "networks": _list(_NETWORK),
    "files": _list(),
    "names": _list(),
    "folders": _list(),
    "amounts": _either(
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1, "maximum": _MOST_AMOUNT}},
        _text(r"([^=,]+=\s*[0-9]{1,9})?(\s*,\s*([^=,]+=\s*[0-9]{1,9})?)*"),
    ),
    "policy": _text(r"latest(:[1-9][0-9]{0,8})?", "latest:", "all", r"specific:.*[^\s,].*"),
    "seconds": _number(settings.LONGEST_SECONDS, rf"{_NUMBER}\s*({_any_case(filter(None, settings.TIME_UNITS))})?"),
    "share": _number(1, _NUMBER),
    "switch": _either({"type": "boolean"}, _text(_any_case(settings.SWITCHES))),
    "text": _PRINTED,
    "text|off": _PRINTED,
    "pattern": _PRINTED,
    "secret": _PRINTED,
    "rules": _PRINTED,
    "path|off": _text(r"/[!-\"$->@-~]*", _OFF),
    "attach": _text("auto", "unix:/.*[^/]", _OFF),
}
"""Schemas of kinds that are neither integers nor one of several words."""
