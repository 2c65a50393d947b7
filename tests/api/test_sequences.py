"""Sequences in handlers: state, order, instance affinity and closing."""

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


def send(client: Client, identifier: int | str, value: float = 1.0, **flags: bool) -> float:
    parameters = {"sequence_id": identifier, **{f"sequence_{flag_name}": value for flag_name, value in flags.items()}}
    response = client.infer("m", {"x": ROW * np.float32(value)}, parameters=parameters)
    return float(response["y"][0, 0])


def observing(observe: Callable[[Context], Any], sequences: Sequences | None = None, **options: Any) -> Model[..., Any]:
    options.setdefault("batching", Batching(8))

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, sequences=sequences or Sequences(), **options)
    def handler(x: Any, ctx: Context) -> Any:
        observe(ctx)
        return x

    return handler


def test_step_provides_sequence_id_flags_and_state() -> None:
    observed: list[Any] = []

    def observe(ctx: Context) -> None:
        (request,) = ctx.requests
        sequence = request.sequence
        assert sequence is not None
        assert ctx.sequence is sequence
        sequence.state[len(sequence.state)] = sequence.id
        observed.append((sequence.id, sequence.start, sequence.end, dict(sequence.state)))

    with Client(observing(observe)) as client:
        send(client, 7, start=True)
        send(client, "seven", start=True)
        send(client, 7)
        send(client, 7, end=True)
        send(client, 7, start=True, end=True)
    assert observed == [
        (7, True, False, {0: 7}),
        ("seven", True, False, {0: "seven"}),
        (7, False, False, {0: 7, 1: 7}),
        (7, False, True, {0: 7, 1: 7, 2: 7}),
        (7, True, True, {0: 7}),
    ]


def test_request_without_sequences_has_none() -> None:
    observed: list[Any] = []
    served = model(name="m", inputs=INPUTS, outputs=OUTPUTS)(lambda x, ctx: observed.append(ctx.sequence) or x)
    with Client(served) as client:
        client.infer("m", {"x": ROW[0]}, parameters={"sequence_id": 5, "sequence_start": True})
    assert observed == [None]


def test_requested_priority_is_visible() -> None:
    observed: list[int] = []

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, queueing=Queueing(3))
    def handler(x: Any, ctx: Context) -> Any:
        observed.append(ctx.requests[0].priority)
        return x

    with Client(handler) as client:
        client.infer("m", {"x": ROW[0]}, parameters={"priority": 2})
        client.infer("m", {"x": ROW[0]})
    assert observed == [2, 0]


class Recorder:
    """A handler that records its closed sequences."""

    closed: list[tuple[int | str, bool, dict[Any, Any]]]
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
        self.closed.append((sequence.id, sequence.end, dict(sequence.state)))

    def close(self) -> None:
        self.closed.append(("close", True, {}))


def recording_model(sequences: Sequences) -> tuple[Any, type[Recorder]]:
    handler_class = type("Recorder", (Recorder,), {"closed": [], "thread": []})
    return model(name="m", inputs=INPUTS, outputs=OUTPUTS, batching=Batching(8), sequences=sequences)(
        handler_class
    ), handler_class


def test_close_sequence_is_called_for_every_sequence() -> None:
    served, handler_class = recording_model(Sequences(max_active=3))
    with Client(served) as client:
        send(client, 1, start=True)
        send(client, 1, end=True)
        until(lambda: len(handler_class.closed) == 1, "the first sequence to be closed")
        send(client, 2, start=True)
        send(client, 2, start=True)
        send(client, 2)
        send(client, 3, start=True)
    ended, restarted, *rest = handler_class.closed
    assert ended == (1, True, {"steps": 2})
    assert restarted == (2, False, {"steps": 1})
    assert sorted(rest[:-1], key=str) == [(2, False, {"steps": 2}), (3, False, {"steps": 1})]
    assert rest[-1] == ("close", True, {}), "sequences are closed before their handler"
    assert len(set(handler_class.thread)) == 1, "all calls on the instance's thread"


def test_idle_sequence_is_closed() -> None:
    served, handler_class = recording_model(Sequences(idle_timeout=timedelta(milliseconds=20), max_active=1))
    with Client(served) as client:
        send(client, 1, start=True)
        until(lambda: handler_class.closed == [(1, False, {"steps": 1})], "the handler to be notified")
        with pytest.raises(InvalidInput, match="sequence 1 must begin with sequence_start"):
            send(client, 1)
        send(client, 2, start=True)


def test_close_sequence_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    served, handler_class = recording_model(Sequences())

    def fail(self: Recorder, sequence: SequenceInfo) -> None:
        raise RuntimeError(f"cannot close {sequence.id}")

    handler_class.close_sequence = fail  # type: ignore[method-assign]
    with Client(served) as client:
        send(client, 1, start=True, end=True)
        until(lambda: "cannot close 1" in caplog.text, "the log record")
        assert send(client, 2, start=True) == 1.0


def test_handler_error_keeps_the_sequence_active() -> None:
    def observe(ctx: Context) -> None:
        assert ctx.sequence is not None
        state = ctx.sequence.state
        state["steps"] = state.get("steps", 0) + 1
        if state["steps"] == 2:
            raise ValueError("the second step")
        observed.append(state["steps"])

    observed: list[int] = []
    with Client(observing(observe)) as client:
        send(client, 1, start=True)
        with pytest.raises(Exception, match="'m'"):
            send(client, 1)
        send(client, 1)
    assert observed == [1, 3]


def test_exceeding_max_active_is_overloaded() -> None:
    with Client(observing(lambda ctx: None, Sequences(max_active=2))) as client:
        send(client, 1, start=True)
        send(client, 2, start=True)
        with pytest.raises(Overloaded, match="maximum of 2 sequences"):
            send(client, 3, start=True)
        assert client.last_response is not None
        assert int(client.last_response.headers["retry-after"]) >= 1
        send(client, 1, end=True)
        send(client, 3, start=True)


def test_rows_of_several_sequences_share_a_batch() -> None:
    gate, batches, gated = Gate(), [], threading.Event()

    def observe(ctx: Context) -> None:
        batches.append([request.sequence.id for request in ctx.requests if request.sequence])
        if gated.is_set():
            gate.enter()

    with Client(observing(observe, batching=Batching(8, hold=False))) as client:
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
    assert batches == [[1], [2, 3], [2]], "never two steps of one sequence"


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("batching", [None, Batching(4)])
def test_sequences_stay_on_one_instance_in_order(instances: int, batching: Batching | None) -> None:
    """Each sequence runs on one instance, in order, with its own state."""
    instances_by_sequence: dict[int | str, set[int]] = {}
    busy: Counter[int | str] = Counter()

    @model(name="m", inputs=INPUTS, outputs=OUTPUTS, batching=batching, instances=instances, sequences=Sequences())
    class Summing:
        def __call__(self, x: Any, ctx: Context) -> Any:
            sums = np.empty_like(x).reshape(-1)
            for row, request in enumerate(ctx.requests):
                assert request.sequence is not None
                identifier, state = request.sequence.id, request.sequence.state
                busy[identifier] += 1
                assert busy[identifier] == 1, "two concurrent steps of one sequence"
                instances_by_sequence.setdefault(identifier, set()).add(id(self))
                state["sum"] = state.get("sum", 0.0) + float(x.reshape(-1)[row])
                sums[row] = state["sum"]
                busy[identifier] -= 1
            return sums.reshape(x.shape)

    with Client(Summing) as client, ThreadPoolExecutor(8) as pool:

        def run(identifier: int) -> list[float]:
            shape = (1,) if batching is None else (1, 1)
            sums = []
            for index in range(20):
                flags = {"sequence_id": identifier, "sequence_start": index == 0, "sequence_end": index == 19}
                response = client.infer("m", {"x": np.full(shape, index, np.float32)}, parameters=flags)
                sums.append(float(response["y"].reshape(-1)[0]))
            return sums

        for sums in pool.map(run, range(1, 25)):
            assert sums == list(np.cumsum(np.arange(20.0)))
    assert all(len(used_instances) == 1 for used_instances in instances_by_sequence.values())
    assert len(set.union(*instances_by_sequence.values())) == instances, "each instance runs some sequences"


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
def test_invalid_sequence_and_queue_values_are_rejected(make: Callable[[], Any], message: str) -> None:
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
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        observing(lambda ctx: None, **{"sequences": None, **options})


def test_sequences_require_a_context() -> None:
    with pytest.raises(SignatureError, match="takes `ctx: Context`"):
        model(name="m", inputs=INPUTS, outputs=OUTPUTS, sequences=Sequences())(lambda x: x)
