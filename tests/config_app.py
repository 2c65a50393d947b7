"""An app in the working folder, for tests of `penstock config`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock._cli.main import main

APP = """
import numpy as np
from penstock import Batching, Processes, Tensor, model
print("imported")

@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("y", np.float32, [1])],
    batching=Batching(max_size=32, max_delay=0.002),
    resources={"gpu0": 2},
)
def double(x):
    return 2 * x

def plain(a: int) -> int:
    return a
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working folder with `app.py`, without variables of settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)
    before = set(sys.modules)
    (tmp_path / "app.py").write_text(APP)
    yield
    for name in set(sys.modules) - before:
        if hasattr(sys.modules[name], "__penstock_file__"):
            del sys.modules[name]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output of a command that succeeds."""
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out
