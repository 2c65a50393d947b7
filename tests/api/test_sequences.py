"""Sequences as a handler sees them: state, order, places, and the end of each."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from penstock import (
    Batching,
    Context,
    InvalidInput,
    Model,
    Overloaded,
    Queueing,
    SequenceInfo,
    Sequences,
    SignatureError,
    Tensor,
    model,
)
from penstock.testing import Client
from waiting import Gate, at_once, until

ROW = np.ones((1, 1), np.float32)
INPUTS, OUTPUTS = [Tensor("x", np.float32, [1])], [Tensor("y", np.float32, [1])]


def send(client: Client, identifier: int | str, value: float = 1.0, **marks: bool) -> float:
    parameters = {"sequence_id": identifier, **{f"sequence_{mark}": flag for mark, flag in marks.items()}}
    answer = client.infer("m", {"x": ROW * np.float32(value)}, parameters=parameters)
    return float(answer["y"][0, 0])


def watching(look: Callable[[Context], Any], sequences: Sequences | None = None, **options: Any) -> Model[..., Any]:
    options.setdefault("batching", Batching(8))

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, sequences=sequences or Sequences(), **options)
    def handler(x: Any, ctx: Context) -> Any:
        look(ctx)
        return x

    return handler


def test_a_step_says_where_it_stands() -> None:
    seen: list[Any] = []

    def look(ctx: Context) -> None:
        (request,) = ctx.requests
        sequence = request.sequence
        assert sequence is not None
        assert ctx.sequence is sequence
        sequence.state[len(sequence.state)] = sequence.id
        seen.append((sequence.id, sequence.start, sequence.end, dict(sequence.state)))

    with Client(watching(look)) as client:
        send(client, 7, start=True)
        send(client, "seven", start=True)
        send(client, 7)
        send(client, 7, end=True)
        send(client, 7, start=True, end=True)
    assert seen == [
        (7, True, False, {0: 7}),
        ("seven", True, False, {0: "seven"}),
        (7, False, False, {0: 7, 1: 7}),
        (7, False, True, {0: 7, 1: 7, 2: 7}),
        (7, True, True, {0: 7}),
    ]


def test_a_request_without_sequences_has_none() -> None:
    seen: list[Any] = []
    served = model(name="m", inputs=INPUTS, outputs=OUTPUTS)(lambda x, ctx: seen.append(ctx.sequence) or x)
    with Client(served) as client:
        client.infer("m", {"x": ROW[0]}, parameters={"sequence_id": 5, "sequence_start": True})
    assert seen == [None]


def test_the_priority_that_was_asked_for() -> None:
    seen: list[int] = []

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, queueing=Queueing(3))
    def handler(x: Any, ctx: Context) -> Any:
        seen.append(ctx.requests[0].priority)
        return x

    with Client(handler) as client:
        client.infer("m", {"x": ROW[0]}, parameters={"priority": 2})
        client.infer("m", {"x": ROW[0]})
    assert seen == [2, 0]


class Closing:
    """Keeps what it was told of the sequences that are over."""

    told: list[tuple[int | str, bool, dict[Any, Any]]]
    thread: list[int]

    def __init__(self) -> None:
        self.closed_on: list[int] = []

    def __call__(self, x: Any, ctx: Context) -> Any:
        assert ctx.sequence is not None
        ctx.sequence.state["steps"] = ctx.sequence.state.get("steps", 0) + 1
        self.thread.append(threading.get_ident())
        return x

    def close_sequence(self, sequence: SequenceInfo) -> None:
        self.thread.append(threading.get_ident())
        self.told.append((sequence.id, sequence.end, dict(sequence.state)))

    def close(self) -> None:
        self.told.append(("close", True, {}))


def closing(sequences: Sequences) -> tuple[Any, type[Closing]]:
    kind = type("Closing", (Closing,), {"told": [], "thread": []})
    return model(name="m", inputs=INPUTS, outputs=OUTPUTS, batching=Batching(8), sequences=sequences)(kind), kind


def test_a_class_is_told_of_every_sequence_that_is_over() -> None:
    served, kind = closing(Sequences(max_active=3))
    with Client(served) as client:
        send(client, 1, start=True)
        send(client, 1, end=True)
        until(lambda: len(kind.told) == 1, "the end of the first")
        send(client, 2, start=True)
        send(client, 2, start=True)
        send(client, 2)
        send(client, 3, start=True)
    ended, restarted, *rest = kind.told
    assert ended == (1, True, {"steps": 2})
    assert restarted == (2, False, {"steps": 1})
    assert sorted(rest[:-1], key=str) == [(2, False, {"steps": 2}), (3, False, {"steps": 1})]
    assert rest[-1] == ("close", True, {}), "sequences are closed before their handler"
    assert len(set(kind.thread)) == 1, "all on the instance's thread"


def test_a_silent_sequence_is_given_up() -> None:
    served, kind = closing(Sequences(idle_timeout=timedelta(milliseconds=20), max_active=1))
    with Client(served) as client:
        send(client, 1, start=True)
        until(lambda: kind.told == [(1, False, {"steps": 1})], "the handler to be told")
        with pytest.raises(InvalidInput, match="sequence 1 must begin with sequence_start"):
            send(client, 1)
        send(client, 2, start=True)


def test_what_close_sequence_raises_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    served, kind = closing(Sequences())

    def fail(self: Closing, sequence: SequenceInfo) -> None:
        raise RuntimeError(f"cannot close {sequence.id}")

    kind.close_sequence = fail  # type: ignore[method-assign]
    with Client(served) as client:
        send(client, 1, start=True, end=True)
        until(lambda: "cannot close 1" in caplog.text, "the log")
        assert send(client, 2, start=True) == 1.0


def test_a_handler_that_raises_leaves_its_sequences() -> None:
    def look(ctx: Context) -> None:
        assert ctx.sequence is not None
        state = ctx.sequence.state
        state["steps"] = state.get("steps", 0) + 1
        if state["steps"] == 2:
            raise ValueError("the second step")
        seen.append(state["steps"])

    seen: list[int] = []
    with Client(watching(look)) as client:
        send(client, 1, start=True)
        with pytest.raises(Exception, match="'m'"):
            send(client, 1)
        send(client, 1)
    assert seen == [1, 3]


def test_one_too_many_is_overloaded_and_names_the_number() -> None:
    with Client(watching(lambda ctx: None, Sequences(max_active=2))) as client:
        send(client, 1, start=True)
        send(client, 2, start=True)
        with pytest.raises(Overloaded, match="maximum of 2 sequences"):
            send(client, 3, start=True)
        assert client.last_response is not None
        assert int(client.last_response.headers["retry-after"]) >= 1
        send(client, 1, end=True)
        send(client, 3, start=True)


def test_rows_of_several_sequences_share_a_call() -> None:
    gate, batches, gated = Gate(), [], threading.Event()

    def look(ctx: Context) -> None:
        batches.append([request.sequence.id for request in ctx.requests if request.sequence])
        if gated.is_set():
            gate.enter()

    with Client(watching(look, batching=Batching(8, hold=False))) as client:
        for identifier in (1, 2, 3):
            send(client, identifier, start=True)
        batches.clear()
        gated.set()
        futures = at_once([lambda: send(client, 1)])
        gate.await_entered()
        for count, identifier in enumerate([2, 3, 2], start=1):
            futures += at_once([lambda identifier=identifier: send(client, identifier)])
            depth = f'penstock_queue_depth{{model="m",version="1"}} {count}\n'
            until(lambda depth=depth: depth in client.get("/metrics").body.decode(), "the request in the queue")
        gate.open()
        for future in futures:
            future.result(timeout=20)
    assert batches == [[1], [2, 3], [2]], "and never two of one sequence"


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("batching", [None, Batching(4)])
def test_many_sequences_on_several_instances(instances: int, batching: Batching | None) -> None:
    """Each is computed by one instance, in order, with its own state, whatever runs beside it."""
    homes: dict[int | str, set[int]] = {}
    busy: Counter[int | str] = Counter()

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, batching=batching, instances=instances, sequences=Sequences())
    class Summing:
        def __call__(self, x: Any, ctx: Context) -> Any:
            sums = np.empty_like(x).reshape(-1)
            for row, request in enumerate(ctx.requests):
                assert request.sequence is not None
                identifier, state = request.sequence.id, request.sequence.state
                busy[identifier] += 1
                assert busy[identifier] == 1, "computed twice at once"
                homes.setdefault(identifier, set()).add(id(self))
                state["sum"] = state.get("sum", 0.0) + float(x.reshape(-1)[row])
                sums[row] = state["sum"]
                busy[identifier] -= 1
            return sums.reshape(x.shape)

    with Client(Summing) as client, ThreadPoolExecutor(8) as pool:

        def run(identifier: int) -> list[float]:
            shape = (1,) if batching is None else (1, 1)
            sums = []
            for index in range(20):
                marks = {"sequence_id": identifier, "sequence_start": index == 0, "sequence_end": index == 19}
                answer = client.infer("m", {"x": np.full(shape, index, np.float32)}, parameters=marks)
                sums.append(float(answer["y"].reshape(-1)[0]))
            return sums

        for sums in pool.map(run, range(1, 25)):
            assert sums == list(np.cumsum(np.arange(20.0)))
    assert all(len(home) == 1 for home in homes.values())
    assert len(set.union(*homes.values())) == instances, "and all instances have some"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequences(idle_timeout=0), "idle_timeout must be more than 0 seconds, not 0"),
        (lambda: Sequences(max_active=True), "max_active must be an integer of 1 or more, not True"),
        (lambda: Queueing(0), "priorities must be an integer from 1 to 64, not 0"),
        (lambda: Queueing(2, default_priority=3), "default_priority must be an integer from 1 to 2, not 3"),
        (lambda: Queueing(timeout=-1), "timeout must be more than 0 seconds or None, not -1"),
    ],
)
def test_values_out_of_range_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequences": 5}, "sequences must be a Sequences, not 5"),
        ({"queueing": 5}, "queueing must be a Queueing, not 5"),
        ({"sequences": Sequences(), "queueing": Queueing(2)}, "they have no priorities"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        watching(lambda ctx: None, **{"sequences": None, **options})


def test_sequences_need_a_context() -> None:
    with pytest.raises(SignatureError, match="takes `ctx: Context`"):
        model(name="m", inputs=INPUTS, outputs=OUTPUTS, sequences=Sequences())(lambda x: x)
