"""Iterative models: rows join and leave between the steps of a class, over every protocol."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock import (
    Client,
    Context,
    Final,
    HandlerError,
    InvalidInput,
    Iterative,
    PenstockError,
    Row,
    Server,
    Tensor,
    model,
    openai,
    testing,
)
from waiting import PATIENCE, Gate, at_once, until

END: Any = {"inputs": [Tensor("end", np.int32, [1])], "outputs": [Tensor("i", np.int32, [1])]}


class Steps:
    """An iterative model whose steps are a function, with all rows that have joined and left."""

    def __init__(self, step: Callable[[list[Row]], Any], **options: Any) -> None:
        joined: list[Row] = []
        left: list[Row] = []
        steps: list[list[Row]] = []
        self.joined, self.left, self.steps = joined, left, steps
        options = {"batching": Iterative(max_rows=4), **END, **options}

        class Stepped:
            def step(self, rows: list[Row]) -> Any:
                steps.append(rows[:])
                joined.extend(row for row in rows if row.step == 0 and row not in joined)
                return step(rows)

            def leave(self, row: Row) -> None:
                left.append(row)

        self.model = model(name="steps", **options)(Stepped)

    def all_left(self, count: int) -> None:
        """Waits until so many rows have left, each once."""
        until(lambda: len(self.left) >= count, f"{count} rows to leave")
        assert len(self.left) == len({id(row) for row in self.left}) == count


def counting(rows: list[Row]) -> list[Any]:
    """Each row counts to its input."""
    return [Final([row.step]) if row.step == row["end"][0] else [row.step] for row in rows]


def ends(*values: int) -> dict[str, Any]:
    return {"end": np.array([[value] for value in values], np.int32)}


def numbers(stream: Iterator[Any]) -> list[int]:
    return [int(chunk["i"][0, 0]) for chunk in stream]


@pytest.fixture
def serve() -> Iterator[Callable[[Steps], tuple[Client, Client]]]:
    """Starts a server of a model, and returns clients over HTTP and gRPC."""
    opened: list[Any] = []

    def start(steps: Steps, **options: Any) -> tuple[Client, Client]:
        server = Server(steps.model, http="127.0.0.1:0", grpc="127.0.0.1:0", **options)
        server.start()
        clients = Client(server.http_url), Client(f"grpc://{server.grpc_address}")
        opened.extend((server, *clients))
        return clients

    yield start
    for one in reversed(opened):
        one.stop() if isinstance(one, Server) else one.close()


def test_rows_are_streamed_over_http_and_grpc(serve: Any) -> None:
    steps = Steps(counting)
    for client in serve(steps):
        assert numbers(client.stream("steps", ends(3))) == [0, 1, 2, 3]
        answers = at_once(
            [lambda end=end, client=client: numbers(client.stream("steps", ends(end))) for end in range(8)]
        )
        assert [answer.result(PATIENCE) for answer in answers] == [[*range(end + 1)] for end in range(8)]
    steps.all_left(18)
    assert max(map(len, steps.steps)) <= 4
    assert steps.left[0].step == 3


def test_generate_stream_and_parameters_of_a_row() -> None:
    def step(rows: list[Row]) -> list[Any]:
        for row in rows:
            row.set_parameter("step", row.step)
        return [Final([row.parameters["start"] + row.step]) if row.step else None for row in rows]

    with testing.Client(Steps(step).model) as client:
        body = json.dumps({"id": "r", "end": 1, "parameters": {"start": 40}})
        response = client.post("/v2/models/steps/generate_stream", body)
    event = json.loads(response.body.removeprefix(b"data: "))
    assert event == {"id": "r", "model_name": "steps", "model_version": "1", "step": 1, "i": 41}


def test_row_has_its_input_request_and_state() -> None:
    seen: list[Any] = []

    def step(rows: list[Row]) -> list[Any]:
        for row in rows:
            row.state = (row.state or 0) + 10
            seen.append((row.step, row.state, row.request_id, row.deadline is not None, row.cancelled, row.index))
            assert row["end"].shape == (1,)
            assert row["end"].flags.writeable
            assert row.inputs["end"] is row["end"]
            assert row.request.headers["x-who"] == "me"
            with pytest.raises(KeyError, match='a row has no input "n", it has end'):
                row["n"]
        return counting(rows)

    steps = Steps(step)
    with testing.Client(steps.model) as client:
        headers = {"x-who": "me", "x-request-timeout": "20"}
        stream = client.stream("steps", ends(1), request_id="one", parameters={"timeout": 20_000_000}, headers=headers)
        assert numbers(stream) == [0, 1]
    assert seen == [(0, 10, "one", True, False, 0), (1, 20, "one", True, False, 0)]
    assert repr(steps.left[0]) == 'Row(request_id="one", index=0, step=1)'


def test_rows_of_one_request_end_independently() -> None:
    steps = Steps(counting)
    with testing.Client(steps.model) as client:
        chunks = [(int(chunk["i"][0, 0]), chunk.parameters["row"]) for chunk in client.stream("steps", ends(2, 0, 1))]
        assert chunks == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0)]
        with pytest.raises(InvalidInput, match="has a batch of 5 rows, model 'steps' accepts at most 4"):
            client.stream("steps", ends(1, 1, 1, 1, 1))
    assert [row.index for row in steps.left] == [1, 2, 0]


def test_rows_of_different_lengths_and_absent_inputs() -> None:
    inputs = [Tensor("prompt", np.int64, [-1]), Tensor("text", str, [1], optional=True)]

    @model(inputs=inputs, outputs=[Tensor("n", np.int64, [1])], batching=Iterative(max_rows=8))
    class Lengths:
        def step(self, rows: list[Row]) -> list[Any]:
            return [Final([len(row["prompt"]) + 100 * (row["text"] is not None)]) for row in rows]

    with testing.Client(Lengths) as client:

        def ask(length: int) -> int:
            given = {"text": [["a"]]} if length % 2 else {}
            (chunk,) = client.stream("Lengths", {"prompt": np.zeros((1, length), np.int64), **given})
            return int(chunk["n"][0, 0])

        answers = at_once([lambda length=length: ask(length) for length in range(1, 9)])
        assert [answer.result(PATIENCE) for answer in answers] == [101, 2, 103, 4, 105, 6, 107, 8]


def test_long_row_does_not_delay_short_ones(serve: Any) -> None:
    reached = threading.Event()

    def step(rows: list[Row]) -> list[Any]:
        # The long row ends once all short ones have.
        return [Final() if row["end"][0] < 0 and reached.is_set() else None if row["end"][0] < 0 else one
                for row, one in zip(rows, counting(rows), strict=True)]  # fmt: skip

    client = serve(Steps(step, batching=Iterative(max_rows=2, max_steps=10**9)))[0]
    (long,) = at_once([lambda: numbers(client.stream("steps", ends(-1)))])
    for _ in range(5):
        assert numbers(client.stream("steps", ends(2))) == [0, 1, 2]
    assert not long.done()
    reached.set()
    assert long.result(PATIENCE) == []


def test_exception_in_place_of_a_row_fails_it_alone() -> None:
    def step(rows: list[Row]) -> list[Any]:
        return [InvalidInput("end is below 0") if row["end"][0] < 0 else one
                for row, one in zip(rows, counting(rows), strict=True)]  # fmt: skip

    steps = Steps(step)
    with testing.Client(steps.model) as client:
        with pytest.raises(HandlerError, match="row 1: end is below 0"):
            numbers(client.stream("steps", ends(1, -1)))
        with pytest.raises(InvalidInput, match=r"^end is below 0"):
            client.stream("steps", ends(-1))
        assert numbers(client.stream("steps", ends(1))) == [0, 1]
    steps.all_left(4)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (lambda _: [[1]] * 3, "model 'steps' returned 3 results of a step of 1 rows"),
        (lambda _: [], "model 'steps' returned 0 results of a step of 1 rows"),
        (lambda _: np.zeros((1, 1)), "model 'steps' returned a ndarray from step, expected a list with an entry for"),
        (lambda _: None, "model 'steps' returned a NoneType from step, expected a list with an entry for each row"),
        (lambda _: ["x"], "model 'steps' returned a str for output 'i', declared INT32"),
        (lambda _: [np.zeros(2, np.int32)], "model 'steps' returned output 'i' with shape [1, 2], declared [-1, 1]"),
        (lambda _: 1 / 0, "model 'steps' failed: ZeroDivisionError"),
    ],
)
def test_wrong_step_fails_its_rows_and_the_instance_goes_on(returned: Any, text: str) -> None:
    steps = Steps(lambda rows: returned(rows) if rows[0]["end"][0] == 9 else counting(rows))
    with testing.Client(steps.model) as client:
        for _ in range(2):
            with pytest.raises(HandlerError) as caught:
                client.stream("steps", ends(9))
            assert str(caught.value).startswith(text)
            assert numbers(client.stream("steps", ends(1))) == [0, 1]
    steps.all_left(4)


def test_failed_step_answers_all_rows_of_the_instance(serve: Any) -> None:
    gate = Gate()

    def step(rows: list[Row]) -> list[Any]:
        gate.enter()
        if len(rows) == 3:
            raise RuntimeError("broken")
        return [None] * len(rows)

    steps = Steps(step)
    client = serve(steps)[1]
    answers = at_once([lambda: numbers(client.stream("steps", ends(5))) for _ in range(3)])
    gate.open()
    errors = [answer.exception(PATIENCE) for answer in answers]
    assert [str(error) for error in errors] == ["model 'steps' failed: RuntimeError"] * 3
    steps.all_left(3)


def test_row_leaves_after_max_steps() -> None:
    steps = Steps(lambda rows: [None] * len(rows), batching=Iterative(max_rows=4, max_steps=7))
    text = "model 'steps' did not end a row within max_steps=7 steps"
    with testing.Client(steps.model) as client, pytest.raises(HandlerError, match=text):
        client.stream("steps", ends(1))
    steps.all_left(1)
    assert len(steps.steps) == 7


def test_row_leaves_with_its_client(serve: Any) -> None:
    steps = Steps(lambda rows: [[row.step] for row in rows], batching=Iterative(max_rows=4, max_steps=10**9))
    for count, client in enumerate(serve(steps), 1):
        with client.stream("steps", ends(1)) as stream:
            assert int(next(stream)["i"][0, 0]) == 0
        steps.all_left(count)
    assert all(row.cancelled for row in steps.left)


def test_row_leaves_at_its_deadline(serve: Any) -> None:
    steps = Steps(lambda rows: [None] * len(rows), batching=Iterative(max_rows=4, max_steps=10**9))
    for count, client in enumerate(serve(steps), 1):
        with pytest.raises(PenstockError, match="model 'steps' did not answer within the deadline"):
            numbers(client.stream("steps", ends(1), parameters={"timeout": 50_000}))
        steps.all_left(count)


def test_slow_reader_is_left_out_of_steps(serve: Any) -> None:
    steps = Steps(lambda rows: [[row.step] for row in rows], batching=Iterative(max_rows=2, max_steps=10**9))
    http, _ = serve(steps)
    with http.stream("steps", ends(1)) as slow, http.stream("steps", ends(2)) as fast:
        next(slow)
        read = 0

        def is_left_out() -> bool:
            nonlocal read
            for _ in range(100):
                next(fast)
                read += 1
            return [row["end"][0] for row in steps.steps[-1]] == [2]

        until(is_left_out, "a step without the slow reader")
        # The steps go on for the other one, once it has read what waits for it.
        seen = len(steps.steps)
        for _ in range(100_000):
            next(fast)
            if len(steps.steps) > seen:
                break
        assert len(steps.steps) > seen
        # It has lost nothing meanwhile.
        assert [int(next(slow)["i"][0, 0]) for _ in range(1000)] == [*range(1, 1001)]


def test_all_rows_of_slow_readers_wait_without_steps(serve: Any) -> None:
    steps = Steps(lambda rows: [[row.step] for row in rows], batching=Iterative(max_rows=2, max_steps=10**9))
    http, _ = serve(steps)
    with http.stream("steps", ends(1)) as slow:
        next(slow)
        until(lambda: _is_still(steps), "the steps to pause")
        # A request joins an instance that waits.
        assert int(next(http.stream("steps", ends(2)))["i"][0, 0]) == 0
        until(lambda: len(steps.left) == 1)
        until(lambda: _is_still(steps), "the steps to pause")
        before = len(steps.steps)
        for _ in range(100_000):
            next(slow)
            if len(steps.steps) > before:
                break
        assert len(steps.steps) > before
    until(lambda: len(steps.left) == 2)


def _is_still(steps: Steps) -> bool:
    """Checks that no step is made for a moment."""
    before = len(steps.steps)
    threading.Event().wait(0.2)
    return len(steps.steps) == before


def test_rows_finish_while_the_server_drains() -> None:
    gate = Gate()

    def step(rows: list[Row]) -> list[Any]:
        gate.enter()
        return counting(rows)

    steps = Steps(step, batching=Iterative(max_rows=1))
    server = Server(steps.model, http="127.0.0.1:0", grpc=None)
    server.start()
    with Client(server.http_url) as client:
        answers = at_once([lambda: numbers(client.stream("steps", ends(3))) for _ in range(2)])
        gate.await_entered()
        until(lambda: 'penstock_queue_depth{model="steps",version="1"} 1' in _metrics(server.http_url))
        (stopped,) = at_once([lambda: server.stop(PATIENCE)])
        gate.open()
        assert [answer.result(PATIENCE) for answer in answers] == [[0, 1, 2, 3]] * 2
    assert stopped.result(PATIENCE) == []
    steps.all_left(2)


def _metrics(url: str) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE) as response:
        return str(response.read().decode())


def test_rows_leave_when_the_drain_is_over() -> None:
    steps = Steps(lambda rows: [None] * len(rows), batching=Iterative(max_rows=4, max_steps=10**9))
    server = Server(steps.model, http="127.0.0.1:0", grpc=None)
    server.start()
    with Client(server.http_url) as client:
        (answer,) = at_once([lambda: numbers(client.stream("steps", ends(3)))])
        until(lambda: steps.steps)
        assert server.stop(0.2) == ["steps (version 1): 1 requests"]
        assert isinstance(answer.exception(PATIENCE), PenstockError)
    steps.all_left(1)


def test_metrics_and_statistics_count_steps(serve: Any) -> None:
    steps = Steps(counting)
    server = Server(steps.model, http="127.0.0.1:0", grpc=None)
    with server, Client(server.http_url) as client:
        assert numbers(client.stream("steps", ends(4))) == [0, 1, 2, 3, 4]
        steps.all_left(1)
        metrics = _metrics(server.http_url)
        statistics = client.statistics("steps")
    labels = 'model="steps",version="1"'
    for line in (
        f'penstock_batches_total{{{labels},reason="step"}} 5',
        f"penstock_batch_size_count{{{labels}}} 5",
        f"penstock_batch_size_sum{{{labels}}} 5.0",
        f"penstock_compute_seconds_count{{{labels}}} 5",
        f"penstock_queue_seconds_count{{{labels}}} 1",
        f"penstock_first_response_seconds_count{{{labels}}} 1",
        f"penstock_response_gap_seconds_count{{{labels}}} 4",
    ):
        assert line in metrics
    (stats,) = statistics["model_stats"]
    assert (stats["execution_count"], stats["inference_count"]) == (5, 1)
    assert stats["inference_stats"]["success"]["count"] == 1
    assert [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in stats["batch_stats"]] == [(1, 5)]


def test_tokens_are_recorded_until_the_last_row_of_a_request_leaves() -> None:
    def step(rows: list[Row]) -> list[Any]:
        for row in rows:
            row.request.record_tokens(prompt=10 if row.step == 0 else None, completion=1)
        return counting(rows)

    steps = Steps(step)
    with testing.Client(steps.model) as client:
        numbers(client.stream("steps", ends(0, 2)))
        steps.all_left(2)
        metrics = until(lambda: found if "completion_tokens_total{" in (found := _page(client)) else "")
    labels = 'model="steps",version="1"'
    assert f"penstock_prompt_tokens_total{{{labels}}} 20" in metrics
    assert f"penstock_completion_tokens_total{{{labels}}} 4" in metrics


def _page(client: testing.Client) -> str:
    return client.get("/metrics").body.decode()


def test_other_models_read_its_streams() -> None:
    @model(inputs=[Tensor("end", np.int32, [1])], outputs=[Tensor("sum", np.int32, [1])])
    def total(end: Any, ctx: Context) -> Any:
        return np.array([sum(int(chunk[0, 0]) for chunk in ctx.models["steps"].stream(end[np.newaxis]))], np.int32)

    with testing.Client(Steps(counting).model, total) as client:
        assert client.infer("total", {"end": np.array([4], np.int32)})["sum"][0] == 10


def test_openai_routes_stream_its_text() -> None:
    text = {"inputs": [Tensor("text", str, [1])], "outputs": [Tensor("word", str, [1])]}

    def step(rows: list[Row]) -> list[Any]:
        return [(Final if row.step == 1 else list)([str(row["text"][0]) + str(row.step)]) for row in rows]

    words = Steps(step, **text)
    with testing.Client(words.model, openai.routes(openai.Completions(words.model))) as client:
        body = {"model": "steps", "prompt": ["a", "b"], "stream": True}
        response = client.post("/v1/completions", json.dumps(body))
    events = [json.loads(event[6:]) for event in response.body.decode().split("\n\n")[:-2]]
    texts = ["".join(one["choices"][0]["text"] for one in events if one["choices"][0]["index"] == at) for at in (0, 1)]
    assert texts == ["a0a1", "b0b1"]
    words.all_left(2)


def test_log_lines_have_the_ids_of_all_rows(tmp_path: Any) -> None:
    from penstock import _core

    _core.enable_request_contexts()
    seen: set[tuple[str, ...]] = set()

    def step(rows: list[Row]) -> list[Any]:
        context = _core.log_context()
        assert context is not None
        seen.add(tuple(context[2]))
        return counting(rows)

    with testing.Client(Steps(step).model) as client:
        numbers(client.stream("steps", ends(1), request_id="a"))
        numbers(client.stream("steps", ends(1), request_id="b"))
    assert seen == {("a",), ("b",)}


def test_error_in_leave_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    @model(batching=Iterative(), **END)
    class Leaves:
        def step(self, rows: list[Row]) -> Any:
            return counting(rows)

        def leave(self, row: Row) -> None:
            raise RuntimeError("while leaving")

    with testing.Client(Leaves) as client:
        assert numbers(client.stream("Leaves", ends(1))) == [0, 1]
        assert numbers(client.stream("Leaves", ends(1))) == [0, 1]
    assert "while leaving" in caplog.text


def test_row_that_holds_itself_is_freed() -> None:
    class Slot:
        pass

    slots: list[Any] = []

    def step(rows: list[Row]) -> list[Any]:
        slot: Any = Slot()
        slot.row, rows[0].state = rows[0], slot
        slots.append(weakref.ref(slot))
        return [Final()]

    @model(batching=Iterative(), **END)
    class Cycle:
        def step(self, rows: list[Row]) -> Any:
            return step(rows)

    with testing.Client(Cycle) as client:
        assert numbers(client.stream("Cycle", ends(1))) == []
    gc.collect()
    assert slots[0]() is None


def test_it_is_warmed_up_built_and_closed() -> None:
    calls: list[str] = []

    @model(batching=Iterative(max_rows=2), warmup=True, instances=2, **END)
    class Life:
        def __init__(self) -> None:
            calls.append("built")

        def step(self, rows: list[Row]) -> Any:
            calls.append("step")
            return counting(rows)

        def leave(self, row: Row) -> None:
            calls.append("leave")

        def close(self) -> None:
            calls.append("close")

    assert Life.streams
    assert Life.iterative == Iterative(2)
    with testing.Client(Life) as client:
        assert sorted(calls) == ["built"] * 2 + ["leave"] * 2 + ["step"] * 2
        assert numbers(client.stream("Life", ends(0))) == [0]
    assert calls.count("close") == 2
