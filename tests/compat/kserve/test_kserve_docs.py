"""docs/kserve.md: flags, defaults and names match the code."""

from __future__ import annotations

import argparse
import importlib
import re

import pytest

from differential import REPOSITORY
from penstock.compat.kserve import model_server

PAGE = (REPOSITORY / "docs" / "kserve.md").read_text()
PREFIX = "penstock.compat."


def rows(head: str) -> list[list[str]]:
    """Returns the cells below a table's head."""
    table = PAGE.split(f"{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def documented_default(action: argparse.Action) -> str:
    """Returns a default as the page writes it."""
    if action.const is True:
        return "off"
    return {True: "true", False: "false"}.get(action.default, str(action.default))


def test_every_flag_is_documented_with_its_default() -> None:
    actions = {action.option_strings[0]: action for action in model_server.parser._actions}
    documented = {flag.strip("`"): default for flag, default, _ in rows("| flag | default | here |")}
    assert set(documented) == set(actions)
    for flag, action in actions.items():
        if action.default is not None:
            assert (
                float(documented[flag]) == action.default
                if documented[flag].isdigit()
                else documented[flag] == documented_default(action)
            ), flag
    assert all(meaning for *_, meaning in rows("| flag | default | here |"))


@pytest.mark.parametrize("row", rows("| `kserve...` | `penstock.compat.kserve...` |"), ids=lambda row: row[0])
def test_documented_import_map_modules_exist(row: list[str]) -> None:
    modules = [match for match in re.findall(r"`([\w.]+)`", row[0]) if match.startswith("kserve") or "_pb2" in match]
    for name in modules:
        full = name if name.startswith("kserve") else f"kserve.protocol.grpc.grpc_predict_v2{name.removeprefix('...')}"
        importlib.import_module(PREFIX + {"kserve_storage": "kserve.storage"}.get(full, full))
    if len(modules) == 1:
        module = importlib.import_module(PREFIX + modules[0])
        for name in re.findall(r"`([A-Za-z]\w+)`", row[1]):
            assert hasattr(module, name), f"{modules[0]}.{name}"
