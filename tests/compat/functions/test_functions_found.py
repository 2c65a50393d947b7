"""`penstock detect` over all examples says whose each folder is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock._cli import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
INTEGRATIONS = {
    "inferless/chat": "inferless",
    "inferless/words": "inferless",
    "modelbit": "modelbit",
    "modelbit/deployments/doubler": "modelbit",
    "modelbit/deployments/price": "modelbit",
    "openinference": "openinference",
    "openinference/function.json": "openinference",
}
"""The integration of each example that is for one; all others are for none of these."""


@pytest.mark.parametrize("path", INTEGRATIONS)
def test_g06_examples_of_integrations(capsys: pytest.CaptureFixture[str], path: str) -> None:
    assert main.main(["detect", "--json", str(EXAMPLES / path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["integration"] == INTEGRATIONS[path]
    (found,) = told["findings"]
    assert found["why"]


def others() -> list[str]:
    theirs = {name.partition("/")[0] for name in INTEGRATIONS}
    found = [one for one in EXAMPLES.iterdir() if one.is_dir() and one.name not in theirs]
    files = [file for folder in found for file in folder.rglob("*.py")]
    return sorted(str(one.relative_to(EXAMPLES)) for one in (*found, *files))


@pytest.mark.parametrize("path", others())
def test_g06_all_other_examples_are_none_of_theirs(capsys: pytest.CaptureFixture[str], path: str) -> None:
    main.main(["detect", "--json", str(EXAMPLES / path)])
    told = json.loads(capsys.readouterr().out)
    assert told["integration"] in (None, "penstock")
    assert {one["integration"] for one in told["findings"]} <= {"penstock"}
