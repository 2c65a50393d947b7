"""`penstock detect` finds the integration of each example."""

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
"""Integration of each example that needs one. Other examples need none."""


@pytest.mark.parametrize("path", INTEGRATIONS)
def test_g06_integrations_of_examples_are_detected(capsys: pytest.CaptureFixture[str], path: str) -> None:
    assert main.main(["detect", "--json", str(EXAMPLES / path)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["integration"] == INTEGRATIONS[path]
    (finding,) = report["findings"]
    assert finding["why"]


def other_examples() -> list[str]:
    excluded = {name.partition("/")[0] for name in INTEGRATIONS}
    folders = [one for one in EXAMPLES.iterdir() if one.is_dir() and one.name not in excluded]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    return sorted(str(one.relative_to(EXAMPLES)) for one in (*folders, *files))


@pytest.mark.parametrize("path", other_examples())
def test_g06_other_examples_match_no_integration(capsys: pytest.CaptureFixture[str], path: str) -> None:
    main.main(["detect", "--json", str(EXAMPLES / path)])
    report = json.loads(capsys.readouterr().out)
    assert report["integration"] in (None, "penstock")
    assert {one["integration"] for one in report["findings"]} <= {"penstock"}
