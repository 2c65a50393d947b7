"""Tables of docs/pytriton.md match the code."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from pathlib import Path

from penstock.compat.pytriton._settings.server_config import WITHOUT_MEANING
from penstock.compat.pytriton.triton import TritonConfig

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "pytriton.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """Returns the rows of the table with this head."""
    table = GUIDE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table]


def test_all_fields_of_the_config_are_documented() -> None:
    documented = {name.strip("`"): effect for name, effect in rows("field | here")}
    assert list(documented) == [one.name for one in fields(TritonConfig)]
    assert all(documented.values())
    without_effect = {
        name: effect.removeprefix("nothing: ") for name, effect in documented.items() if effect.startswith("nothing: ")
    }
    assert without_effect == WITHOUT_MEANING


def test_modules_of_the_import_map_exist() -> None:
    documented = " ".join(name for name, _ in rows("`pytriton...` | `penstock.compat.pytriton...`"))
    modules = set(re.findall(r"`(pytriton[\w.]*)`", documented))
    assert len(modules) >= 11
    for module in modules:
        importlib.import_module(f"penstock.compat.{module}")


def test_differences_describe_both_products() -> None:
    table = rows("what | PyTriton 0.7.0 | here")
    assert len(table) >= 20
    assert all(len(row) == 3 and all(row) for row in table)
    assert len({row[0] for row in table}) == len(table)
