"""Cohere's clients, in a separate interpreter, with `penstock.openai.Rerank`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from clients_tools import TOOLS

from penstock import Batching, Context, Server, model, openai

PYTHON = TOOLS / "cohere" / "bin" / "python"
SCRIPT = Path(__file__).parent / "cohere_calls.py"


@model(batching=Batching(max_size=4))
def rank(query: list[str], document: list[str], ctx: Context) -> list[float]:
    most = min(one.parameters.get("max_tokens_per_doc", 99) for one in ctx.requests)
    return [float(text.split()[:most].count(word)) for word, text in zip(query, document, strict=True)]


def test_rerank_of_both_versions() -> None:
    if not PYTHON.exists():
        pytest.skip("cohere is not installed; python tests/clients/setup_tools.py fetches it")
    with Server(rank, openai.routes(openai.Rerank(rank)), http="127.0.0.1:0", grpc=None) as server:
        command = [str(PYTHON), str(SCRIPT), str(server.http_url)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "first": [[1, 3.0, "a a a"], [3, 2.0, "a a"]],
        "second": [[1, 1.0], [3, 1.0], [0, 0.0], [2, 0.0]],
        "versions": ["1", "2"],
        "refused": "top_n",
    }
