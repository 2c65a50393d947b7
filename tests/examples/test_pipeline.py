"""The pipeline example: its output over a socket matches the README, and the words of a description."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock import Server

Load = Callable[[str], ModuleType]

README = Path(__file__).resolve().parents[2] / "examples" / "pipeline" / "README.md"


@pytest.fixture(scope="module")
def server(example: Load) -> Iterator[Any]:
    app = example("app")
    models = (app.shrink, app.colour, app.edges, app.words, app.describe, app.compare)
    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        yield server


def test_pipeline_client_output_matches_the_readme(
    example: Load, server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tritonclient.http", reason="client.py needs tritonclient")
    monkeypatch.setattr(sys, "argv", ["client.py", "--http", server.http_url.removeprefix("http://")])
    example("client").main()
    expected = re.search(r"It prints\n\n```\n(.*?)```", README.read_text(), re.DOTALL)
    assert expected
    assert capsys.readouterr().out == expected[1]


def test_line_describes_brightness_colour_and_edges(example: Load) -> None:
    line = example("app").line
    assert line(np.float32([0.2, 0.9, 0.3]), 0.5) == "dark, green, busy"
    assert line(np.float32([0.9, 0.9, 0.95]), 0.0) == "bright, grey, calm"
