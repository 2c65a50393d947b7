"""Sequences across a model's replacement: active ones keep their version, new ones start on the new version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Server
from repositories import Repository, RepositoryClient
from waiting import until

STATEFUL = """
import numpy as np
from penstock import Batching, Context, Sequences, Tensor, model

@model(
    inputs=[Tensor("{input}", np.float32, [1])],
    outputs=[Tensor("y", np.float32, [1])],
    batching=Batching(max_size=8),
    sequences=Sequences(idle_timeout={idle}, max_active=8),
)
class Sum:
    def __call__(self, x, ctx: Context):
        state = ctx.requests[0].sequence.state
        state["sum"] = state.get("sum", 0.0) + float(x[0, 0])
        return np.full_like(x, {base} + state["sum"])

    def close(self):
        with open({closed!r}, "a") as file:
            file.write("{base} ")
"""


class Sums:
    def __init__(self, folder: Path) -> None:
        self.repository = Repository(folder / "models")
        self.closed = folder / "closed"

    def put(self, version: str, base: int, idle: float = 30.0, name: str = "x") -> None:
        text = STATEFUL.format(base=base, idle=idle, input=name, closed=str(self.closed))
        self.repository.write("sum", version, text)

    def has_closed(self, base: int) -> bool:
        return self.closed.exists() and str(base) in self.closed.read_text().split()


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    sums = Sums(tmp_path)
    sums.put("1", 100)
    return sums


@pytest.fixture
def client(sums: Sums) -> Iterator[RepositoryClient]:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "model_control": "explicit", "load_models": "sum"}
    # A stop waits for active sequences, and tests leave some behind.
    options["drain_timeout"] = 0.1
    with Server(repository=sums.repository.path, **options) as server:
        yield RepositoryClient(server.http_url)


def step(client: RepositoryClient, identifier: int, value: float, name: str = "x", **marks: bool) -> float | str:
    document = {
        "inputs": [{"name": name, "datatype": "FP32", "shape": [1, 1], "data": [value]}],
        "parameters": {"sequence_id": identifier, **{f"sequence_{mark}": flag for mark, flag in marks.items()}},
    }
    status, response = client("POST", "/v2/models/sum/infer", document)
    return float(response["outputs"][0]["data"][0]) if status == 200 else str(response["error"])


@pytest.mark.parametrize("version", ["1", "2"])
def test_sequence_continues_on_the_version_with_its_state(sums: Sums, client: RepositoryClient, version: str) -> None:
    assert [step(client, 1, 1, start=True), step(client, 1, 2)] == [101, 103]
    sums.put(version, 200)
    assert client.load("sum")[0] == 200
    assert [step(client, 1, 3), step(client, 2, 5, start=True), step(client, 1, 4)] == [106, 205, 110]
    # After two replacements each sequence stays on its version.
    sums.put(version, 300)
    assert client.load("sum")[0] == 200
    assert [step(client, 3, 1, start=True), step(client, 2, 1), step(client, 1, 1)] == [301, 206, 111]
    assert not sums.has_closed(100)
    assert step(client, 1, 1, end=True) == 112
    until(lambda: sums.has_closed(100), "the first version to end with its last sequence")
    assert not sums.has_closed(200)
    assert step(client, 1, 1) == "sequence 1 must begin with sequence_start: it is not active on model 'sum'"
    assert [step(client, 2, 1, end=True), step(client, 3, 1, end=True)] == [207, 302]
    until(lambda: sums.has_closed(200), "the second version to end")


def test_new_sequences_start_on_the_new_version(sums: Sums, client: RepositoryClient) -> None:
    assert step(client, 1, 1, start=True) == 101
    sums.put("1", 200)
    assert client.load("sum")[0] == 200
    assert [step(client, 1, 2, start=True), step(client, 1, 3)] == [202, 205]


def test_idle_timeout_unloads_the_replaced_version(sums: Sums, client: RepositoryClient) -> None:
    sums.put("1", 150, idle=0.3)
    assert client.load("sum")[0] == 200
    assert step(client, 1, 1, start=True) == 151
    sums.put("1", 200)
    assert client.load("sum")[0] == 200
    until(lambda: sums.has_closed(150), "the replaced version to end")
    assert step(client, 1, 1) == "sequence 1 must begin with sequence_start: it is not active on model 'sum'"


def test_sequence_of_a_model_replaced_with_other_inputs_is_refused(sums: Sums, client: RepositoryClient) -> None:
    assert step(client, 1, 1, start=True) == 101
    sums.put("2", 200, name="z")
    assert client.load("sum")[0] == 200
    assert step(client, 1, 1, name="z") == (
        "sequence 1 must begin again with sequence_start: model 'sum' was replaced by one with other inputs or outputs"
    )


def test_unload_ends_sequences(sums: Sums, client: RepositoryClient) -> None:
    assert step(client, 1, 1, start=True) == 101
    assert client.unload("sum")[0] == 200
    assert step(client, 1, 1) == "model 'sum' is not loaded"
    until(lambda: sums.has_closed(100), "the model to end")
