"""Options of an integration, converted to the types of a dataclass's fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any

from penstock.errors import ConfigError

__all__ = ["check_least", "check_positive", "read_options"]

_SWITCHES = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0", ""), False),
}


def read_options(
    cls: type,
    options: Mapping[str, Any],
    *,
    choices: Mapping[str, Collection[str]] | None = None,
    exclude: Collection[str] = (),
) -> dict[str, Any]:
    """Converts options, whose values may be strings of a command line, to the types of a dataclass's fields.

    Args:
        cls: The dataclass. Its fields are of type bool, int, float (0 or more), str, `tuple[str, ...]` (`A,B`) or
            `Mapping[str, str]` (`NAME=VALUE,...`).
        options: Values by option; `-` in a name stands for `_`.
        choices: Valid values, by field.
        exclude: Fields that are not options.

    Raises:
        ConfigError: an option is unknown or has an invalid value.
    """
    kinds = {one.name: str(one.type).partition("[")[0] for one in fields(cls) if one.name not in exclude}
    values: dict[str, Any] = {}
    for option, value in options.items():
        name = option.replace("-", "_")
        if name not in kinds:
            raise ConfigError(f"unknown option {option!r}, expected one of {', '.join(kinds)}")
        expected, convert = _KINDS[kinds[name]]
        try:
            values[name] = convert(value)
        except (KeyError, TypeError, ValueError):
            raise ConfigError(f"option {option}: got {value!r}, expected {expected}") from None
    for name, valid in (choices or {}).items():
        if name in values and values[name] not in valid:
            raise ConfigError(f"option {name}: got {values[name]!r}, expected {' or '.join(valid)}")
    return values


def check_least(settings: object, **least: float) -> None:
    """Checks the least values of fields.

    Raises:
        ConfigError: a value is less.
    """
    for name, limit in least.items():
        if getattr(settings, name) < limit:
            raise ConfigError(f"option {name}: got {getattr(settings, name)}, expected {limit} or more")


def check_positive(settings: object, *names: str) -> None:
    """Checks that fields are above 0.

    Raises:
        ConfigError: a value is 0.
    """
    for name in names:
        if getattr(settings, name) <= 0:
            raise ConfigError(f"option {name}: got {getattr(settings, name)}, expected a number above 0")


def _to_bool(value: Any) -> bool:
    return value if isinstance(value, bool) else _SWITCHES[str(value).strip().lower()]


def _to_float(value: Any) -> float:
    number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError(value)
    return number


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        raise TypeError(value)
    return str(value).strip()


def _to_strings(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    return tuple(text for one in items if (text := str(one).strip()))


def _to_mapping(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(one) for name, one in value.items()}
    parts = [one.partition("=") for one in str(value).split(",") if one.strip()]
    if any(not name.strip() or not equals for name, equals, _ in parts):
        raise ValueError(value)
    return {name.strip(): one for name, _, one in parts}


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("on or off", _to_bool),
    "int": ("an integer", lambda value: int(str(value))),
    "float": ("a number of 0 or more", _to_float),
    "str": ("a string", _to_string),
    "tuple": ("strings separated by commas", _to_strings),
    "Mapping": ("NAME=VALUE,...", _to_mapping),
}
"""The expected form and the conversion, by the type of a field."""
