"""Sequences while their model is replaced: they go on where their state is, and new ones begin on what is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Server
from repositories import Caller, Repository
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
def caller(sums: Sums) -> Iterator[Caller]:
    options: Any = {"http": "127.0.0.1:0", "grpc": None, "model_control": "explicit", "load_models": "sum"}
    with Server(repository=sums.repository.path, **options) as server:
        yield Caller(server.http_url)


def step(caller: Caller, identifier: int, value: float, name: str = "x", **marks: bool) -> float | str:
    document = {
        "inputs": [{"name": name, "datatype": "FP32", "shape": [1, 1], "data": [value]}],
        "parameters": {"sequence_id": identifier, **{f"sequence_{mark}": flag for mark, flag in marks.items()}},
    }
    status, answer = caller("POST", "/v2/models/sum/infer", document)
    return float(answer["outputs"][0]["data"][0]) if status == 200 else str(answer["error"])


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_sequence_goes_on_where_its_state_is(sums: Sums, caller: Caller, version: str) -> None:
    assert [step(caller, 1, 1, start=True), step(caller, 1, 2)] == [101, 103]
    sums.put(version, 200)
    assert caller.load("sum")[0] == 200
    assert [step(caller, 1, 3), step(caller, 2, 5, start=True), step(caller, 1, 4)] == [106, 205, 110]
    # Replaced twice, and each sequence stays where it began.
    sums.put(version, 300)
    assert caller.load("sum")[0] == 200
    assert [step(caller, 3, 1, start=True), step(caller, 2, 1), step(caller, 1, 1)] == [301, 206, 111]
    assert not sums.has_closed(100)
    assert step(caller, 1, 1, end=True) == 112
    until(lambda: sums.has_closed(100), "the first form to end with its last sequence")
    assert not sums.has_closed(200)
    assert step(caller, 1, 1) == "sequence 1 must begin with sequence_start: it is not active on model 'sum'"
    assert [step(caller, 2, 1, end=True), step(caller, 3, 1, end=True)] == [207, 302]
    until(lambda: sums.has_closed(200), "the second form to end")


def test_a_start_begins_on_what_is_new(sums: Sums, caller: Caller) -> None:
    assert step(caller, 1, 1, start=True) == 101
    sums.put("1", 200)
    assert caller.load("sum")[0] == 200
    assert [step(caller, 1, 2, start=True), step(caller, 1, 3)] == [202, 205]


def test_silence_ends_what_was_replaced(sums: Sums, caller: Caller) -> None:
    sums.put("1", 150, idle=0.3)
    assert caller.load("sum")[0] == 200
    assert step(caller, 1, 1, start=True) == 151
    sums.put("1", 200)
    assert caller.load("sum")[0] == 200
    until(lambda: sums.has_closed(150), "the replaced form to end")
    assert step(caller, 1, 1) == "sequence 1 must begin with sequence_start: it is not active on model 'sum'"


def test_a_model_with_other_inputs_says_that_it_was_replaced(sums: Sums, caller: Caller) -> None:
    assert step(caller, 1, 1, start=True) == 101
    sums.put("2", 200, name="z")
    assert caller.load("sum")[0] == 200
    assert step(caller, 1, 1, name="z") == (
        "sequence 1 must begin again with sequence_start: model 'sum' was replaced by one with other inputs or outputs"
    )


def test_unloading_ends_sequences(sums: Sums, caller: Caller) -> None:
    assert step(caller, 1, 1, start=True) == 101
    assert caller.unload("sum")[0] == 200
    assert step(caller, 1, 1) == "model 'sum' is not loaded"
    until(lambda: sums.has_closed(100), "the model to end")
