"""Settings with their origins, as rows of a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from penstock._config.resolve import Resolved
from penstock._config.value_text import as_json, shown

__all__ = ["Row", "Shadowed", "rows_of", "table", "to_json"]

_WIDEST_VALUE = 32
"""Most characters of a value before the origins are no longer below each other."""


class Shadowed(NamedTuple):
    """A value that another source takes precedence over."""

    text: str
    value: Any
    origin: str


class Row(NamedTuple):
    """A setting with its value."""

    name: str
    text: str
    value: Any
    """The value as JSON."""
    origin: str
    is_given: bool
    """False for a default."""
    shadowed: Sequence[Shadowed] = ()


def rows_of(resolved: Resolved[Any]) -> list[Row]:
    """All settings, in the order of their fields."""
    rows = []
    for entry in fields(resolved.kind):
        kind, given = entry.metadata["kind"], resolved.given.get(entry.name, ())
        values = [Shadowed(shown(kind, one.value), as_json(kind, one.value), one.origin) for one in given]
        if values:
            first, *others = values
            rows.append(Row(entry.name, *first, is_given=not given[0].built_in, shadowed=others))
        else:
            rule = entry.metadata["computed"]
            origin = f"computed: {rule}" if rule else "default"
            value = entry.default
            rows.append(Row(entry.name, shown(kind, value), as_json(kind, value), origin, is_given=False))
    return rows


def table(sections: Iterable[tuple[str, Sequence[Row]]]) -> str:
    """Sections of rows, each below its title. Shadowed values are below the one that counts, without a name."""
    return "\n\n".join("\n".join([title, *_lines(rows)]).strip("\n") for title, rows in sections if title or rows)


def _lines(rows: Sequence[Row]) -> list[str]:
    cells = [
        cell
        for row in rows
        for cell in ((row.name, row.text, row.origin), *(("", one.text, one.origin) for one in row.shadowed))
    ]
    first = max((len(name) for name, _, _ in cells), default=0)
    second = min(_WIDEST_VALUE, max((len(text) for _, text, _ in cells), default=0))
    return [f"{name:<{first}}  {text:<{second}}  {origin}" for name, text, origin in cells]


def to_json(rows: Iterable[Row]) -> dict[str, Any]:
    """Rows by name, as JSON."""
    return {
        row.name: {
            "value": row.value,
            "origin": row.origin,
            "shadowed": [{"value": one.value, "origin": one.origin} for one in row.shadowed],
        }
        for row in rows
    }
