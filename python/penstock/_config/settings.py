"""Parsing and checks of settings, one rule per kind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from penstock._config import access, listeners, web
from penstock._spec.versions import VersionPolicy

SIZE_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
"""Bytes of a unit, by its name in lower case."""

TIME_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""Seconds of a unit, by its name in lower case."""

SWITCHES = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
"""Values of a switch by their texts, in lower case."""

LISTS = ("folders", "names", "files", "listeners", "hosts", "origins", "networks", "amounts")
"""Kinds of settings with several values, which are accepted in several forms."""

SECRETS = ("rules", "secret")
"""Kinds of settings whose values messages do not show."""

_OPTIONAL = ("address", "address|same", "pattern", "text|off", "path|off", "attach", *SECRETS)
"""Kinds of settings that may be off, which becomes None."""

_TEXTS = {"text": "printable text", "text|off": "printable text", "pattern": "a regular expression, or off"}
"""Kinds of text settings, with the expected value for messages."""

_AMOUNTS = "amounts by name, such as gpu0=2,disk=1"

_MAX_INTEGER = 2**63 - 1
_SIZE = (1, _MAX_INTEGER, "a size of 1 byte or more, such as 64MiB")
INTEGERS = {
    "count": (0, 4096, "an integer from 0 to 4096"),
    "positive": (1, _MAX_INTEGER, "an integer of 1 or more"),
    "size": _SIZE,
    "size|auto": _SIZE,
}
"""Kinds of integers: the least, the most, and the expected value for messages."""

LONGEST_SECONDS = 366 * 86400.0
"""Limit of a duration."""


def parse(kind: str, text: str) -> Any:
    """The value of a flag's or variable's text, checked.

    Raises:
        ValueError: not a value of this kind; the message has the text and the expected form.
    """
    text = text.strip()
    value = _read(kind, text)
    check(kind, value)
    return value


def check(kind: str, value: Any) -> None:
    """Checks the value of a setting.

    Raises:
        ValueError: not a value of this kind; the message has the value and the expected form.
    """
    if value is None and kind in (*_OPTIONAL, "size|auto"):
        return
    if kind in (*LISTS, "policy"):
        _check_repository(kind, value)
    else:
        _check_single(kind, value)


def _check_single(kind: str, value: Any) -> None:
    if kind in ("address", "address|same"):
        is_address = listeners.is_address(value) or (kind == "address|same" and value == "same")
        _require(is_address, value, "HOST:PORT or PORT with a port from 0 to 65535, unix:/path, fd:N, or off")
    elif kind == "seconds":
        _require(_is_number(value) and 0 <= value <= LONGEST_SECONDS, value, "a duration of 0 seconds to 366 days")
    elif kind == "switch":
        _require(isinstance(value, bool), value, "true or false")
    elif kind == "path|off":
        is_path = isinstance(value, str) and re.fullmatch(r"/[!-\"$->@-~]*", value) is not None
        _require(is_path, value, "a path such as /predict")
    elif kind == "attach":
        is_address = isinstance(value, str) and re.fullmatch(r"auto|unix:/.*[^/]", value) is not None
        _require(is_address, value, "unix:/path, auto or off")
    elif kind in _TEXTS:
        _require(isinstance(value, str) and value != "" and value.isprintable(), value, _TEXTS[kind])
    elif kind in SECRETS:
        if not isinstance(value, str) or value == "":
            raise ValueError("expected text")
    elif kind in INTEGERS:
        least, most, expected = INTEGERS[kind]
        _require(_is_integer(value) and least <= value <= most, value, expected)
    elif kind == "share":
        _require(_is_number(value) and 0 <= value <= 1, value, "a share from 0 to 1")
    else:
        _require(value in choices(kind), value, f"one of {', '.join(choices(kind))}")


def choices(kind: str) -> tuple[str, ...]:
    """The words of a kind that is one of several words; empty for other kinds."""
    words = kind.split("|")
    return () if kind in _OPTIONAL or kind == "size|auto" or len(words) == 1 else tuple(words)


def normalised(kind: str, value: Any) -> Any:
    """The value of an argument or of the file, with texts read as in the environment. Not checked.

    Raises:
        ValueError: a text that cannot be read.
    """
    if kind in LISTS:
        # A folder is one text here: unlike in the environment, its name may have a colon.
        return listed(kind, _read(kind, value) if isinstance(value, str) and kind != "folders" else value)
    if kind in ("address", "address|same") and _is_integer(value):
        value = str(value)
    if isinstance(value, float) and choices(kind):
        # A version, which TOML reads as a number.
        value = str(value)
    return _read(kind, value.strip()) if isinstance(value, str) else value


def listed(kind: str, value: Any) -> Any:
    """One or several paths or texts as a tuple; other values unchanged."""
    if kind == "amounts":
        return _amounts(value) if isinstance(value, str) else tuple(value.items()) if _is_map(value) else value
    if isinstance(value, (str, os.PathLike)):
        return (os.fspath(value),)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        items = tuple(os.fspath(item) if isinstance(item, os.PathLike) else item for item in value)
        return _entries(kind, items)
    return value


def _entries(kind: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The entries of a list in their one form."""
    if kind == "listeners":
        return tuple(map(listeners.entry_with_host, items))
    if kind == "origins":
        return tuple(web.normalised_origin(item) if isinstance(item, str) else item for item in items)
    return items


def _is_map(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _amounts(text: str) -> tuple[tuple[str, int], ...]:
    amounts = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"([^=]+?)\s*=\s*([0-9]{1,9})", part)
        _require(match is not None, part, _AMOUNTS)
        assert match is not None
        amounts.append((match[1], int(match[2])))
    return tuple(amounts)


def _read(kind: str, text: str) -> Any:
    if kind in _OPTIONAL:
        if text.lower() in access.OFF:
            return None
        return listeners.with_host(text) if kind in ("address", "address|same") else text
    if kind == "switch":
        _require(text.lower() in SWITCHES, text, "true or false")
        return SWITCHES[text.lower()]
    if kind == "amounts":
        return _amounts(text)
    if kind in LISTS:
        parts = text.split(os.pathsep if kind == "folders" else ",")
        return _entries(kind, tuple(name for part in parts if (name := part.strip())))
    if kind == "size|auto" and text.lower() == "auto":
        return None
    if kind == "share":
        _require(re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,9})?", text) is not None, text, "a share from 0 to 1")
        return float(text)
    if kind in ("size", "size|auto"):
        number, unit = _split(text, SIZE_UNITS, "a size of 1 byte or more, such as 64MiB")
        return int(number * SIZE_UNITS[unit])
    if kind == "seconds":
        number, unit = _split(text, TIME_UNITS, "a duration such as 500ms, 30s or 2m")
        return number * TIME_UNITS[unit]
    if kind in ("count", "positive"):
        # Sixteen digits exceed every limit here, and int() of a long text is slow.
        _require(re.fullmatch(r"[0-9]{1,16}", text) is not None, text, "an integer of 0 or more")
        return int(text)
    return text


def _split(text: str, units: Mapping[str, float], expected: str) -> tuple[float, str]:
    match = re.fullmatch(r"([0-9]{1,16}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", text)
    unit = match[2].lower() if match else None
    _require(unit in units, text, expected)
    assert match is not None
    assert unit is not None
    return float(match[1]) if "." in match[1] else int(match[1]), unit


def _check_repository(kind: str, value: Any) -> None:
    if kind == "policy":
        _require(isinstance(value, str), value, "latest:N, all, or specific:V,V,...")
        VersionPolicy.parse(value)
        return
    if kind == "amounts":
        pairs = isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        _require(pairs and len({name for name, _ in value}) == len(value), value, _AMOUNTS)
        for name, amount in value:
            _require(isinstance(name, str) and name != "" and name.isprintable(), name, "the name of a resource")
            _require(_is_integer(amount) and 1 <= amount < 2**31, amount, f"an amount of {name!r} of 1 or more")
        return
    plain = isinstance(value, tuple) and all(isinstance(item, str) and item and "\0" not in item for item in value)
    _require(plain, value, f"a list of {kind}")
    if kind == "listeners":
        for entry in value:
            listeners.check_entry(entry)
    if kind == "origins":
        web.check_origins(value)
    if kind == "networks":
        for entry in value:
            web.check_network(entry)
    if kind == "hosts":
        for host in value:
            is_host = re.fullmatch(r"\*|[A-Za-z0-9_.-]*[A-Za-z0-9_-]|\[[0-9A-Fa-f:.]+\]", host) is not None
            _require(is_host, host, "a host's name or address without port, or *")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require(holds: bool, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{value!r} is not {expected}")
