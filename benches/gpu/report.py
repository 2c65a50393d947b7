"""Rows of a section: printed as compact tables, and appended to a file as they come."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORK = Path("bench-data/gpu-work")
"""Folder for rows, bodies of requests and logs of servers."""


def rows_file(section: str) -> Path:
    """File of a section's rows, one JSON object per line."""
    return WORK / f"{section}.jsonl"


class Report:
    """Results of one section."""

    def __init__(self, section: str, *, cpu: bool) -> None:
        self.cpu = cpu
        """True for a check without a GPU, with small sizes."""
        self.work = WORK
        self._file = rows_file(section)
        self._section = section
        self._columns: list[str] = []
        self._table = ""

    @property
    def device(self) -> str:
        """The device of torch."""
        return "cpu" if self.cpu else "cuda"

    def table(self, title: str, *columns: str) -> None:
        """Begins a table. A column is as wide as its name, at least seven."""
        self._table, self._columns = title, list(columns)
        print(f"[{self._section}] {title}", " ".join(map(_cell, columns, columns)), sep="\n", flush=True)

    def row(self, *values: Any) -> None:
        """Adds a row, whose values are in the order of the columns."""
        named = dict(zip(self._columns, values, strict=True))
        print(" ".join(map(_cell, values, self._columns)), flush=True)
        self._append({"table": self._table, **named})

    def fact(self, name: str, value: Any) -> None:
        """Adds one named value."""
        print(f"[{self._section}] {name}: {value}", flush=True)
        self._append({"fact": name, "value": value})

    def keep(self, name: str, value: Any) -> None:
        """Adds one named value without printing it."""
        self._append({"fact": name, "value": value})

    def attempt(self, name: str, action: Callable[[], Any]) -> Any:
        """Adds the result of an action as a fact, or its exception. Returns the result, or None."""
        try:
            result = action()
        except Exception as error:
            self.fact(name, f"error: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            self._append({"fact": f"{name}: traceback", "value": traceback.format_exc(limit=-4)})
            return None
        if result is not None:
            self.fact(name, result)
        return result

    def earlier(self, section: str) -> list[dict[str, Any]]:
        """Rows of an earlier section of the same run; empty without them."""
        file = rows_file(section)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def _append(self, row: dict[str, Any]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")


def _cell(value: Any, column: str) -> str:
    if isinstance(value, float):
        value = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str("" if value is None else value).rjust(max(7, len(column)))
