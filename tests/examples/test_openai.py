"""The example of OpenAI's API: its client script with its models."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from penstock import Server
from penstock.testing import Client

Load = Callable[[str], ModuleType]


def test_openai_client_script_runs_against_the_app(example: Load, capsys: pytest.CaptureFixture[str]) -> None:
    app, ask = example("app"), example("ask")
    with Server(app.trigrams, app.Miller, app.api, http="127.0.0.1:0", grpc=None) as server:
        ask.main(f"{server.http_url}/v1")
    *likenesses, story, chat = capsys.readouterr().out.splitlines()
    first, second, third = (float(line.split()[0]) for line in likenesses)
    assert first == pytest.approx(1, abs=0.01)
    assert second > 2 * third
    assert story.startswith("When the rain ")
    assert story.endswith(" words]")
    assert chat


def test_openai_models_are_served_over_v2_too(example: Load) -> None:
    app = example("app")
    with Client(app.trigrams, app.Miller, app.api) as client:
        vector = client.infer("trigrams", {"text": np.array([["gate"]], object)})["vector"]
    assert np.linalg.norm(vector) == pytest.approx(1)
