"""Rows of a batch that fail alone: only their callers are told so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import get, infer, metric_at
from penstock import Batching, Forbidden, InvalidInput, RowErrors, Server, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

ONE = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


def raised(x: Any) -> Any:
    raise RowErrors({row: InvalidInput(f"no {value:.0f}") for row, value in below(x)}, x * 10)


def returned(x: Any) -> Any:
    return RowErrors({row: InvalidInput(f"no {value:.0f}") for row, value in below(x)}, x * 10)


def listed(x: Any) -> Any:
    return [InvalidInput(f"no {row[0]:.0f}") if row[0] < 0 else row * 10 for row in x]


async def awaited(x: Any) -> Any:
    return listed(x)


async def raised_async(x: Any) -> Any:
    raised(x)


def below(x: Any) -> Iterator[tuple[Any, Any]]:
    bad = np.flatnonzero(x[:, 0] < 0)
    return zip(bad, x[bad, 0], strict=True)


HANDLERS = [raised, returned, listed, awaited, raised_async]


class Together:
    """A server whose first batch is held, so that all that is asked meanwhile shares the second one."""

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self.gate, self.sizes = Gate(), list[int]()
        plain = handler

        def held(x: Any) -> Any:
            self.sizes.append(len(x))
            if len(self.sizes) == 1:
                self.gate.enter()
            return plain(x)

        async def held_async(x: Any) -> Any:
            self.sizes.append(len(x))
            if len(self.sizes) == 1:
                self.gate.enter()
            return await plain(x)

        target = held_async if plain in (awaited, raised_async) else held
        if target is held_async:
            options["max_concurrency"] = 1
        self.model = model(target, name="m", batching=Batching(max_size=64), **{**ONE, **options})

    def ask(self, rows: list[list[float]]) -> tuple[list[Any], dict[str, float], Any]:
        """The answers to requests that went in one batch, the counts of outcomes, and the statistics."""
        with Server(self.model, http="127.0.0.1:0", grpc=None) as server:
            url = server.http_url

            def one(values: list[float]) -> Any:
                return infer(url, "m", {"x": np.array(values, np.float32).reshape(-1, 1)})

            futures = at_once([lambda: one([1.0])])
            self.gate.await_entered()
            for index, values in enumerate(rows):
                futures += at_once([lambda values=values: one(values)])
                until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
            self.gate.open()
            answers = [future.result() for future in futures][1:]
            counts = {
                outcome: metric_at(url, "penstock_requests_total", outcome=outcome)
                for outcome in ("ok", "invalid_input")
            }
            return answers, counts, get(url, "/v2/models/m/stats").json()["model_stats"][0]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_only_the_callers_of_failed_rows_get_the_error(handler: Callable[..., Any]) -> None:
    together = Together(handler)
    rows = [[2.0], [-3.0], [4.0, 5.0], [6.0, -7.0, -8.0], [9.0]]
    answers, counts, statistics = together.ask(rows)
    assert together.sizes == [1, 8]
    assert [answer.status for answer in answers] == [200, 400, 200, 400, 200]
    assert [answers[place].array("y").ravel().tolist() for place in (0, 2, 4)] == [[20], [40, 50], [90]]
    # Who has one row need not be told which; with several, the first of its own that failed is named.
    assert [answers[place].error() for place in (1, 3)] == ["no -3", "row 1: no -7"]
    assert counts == {"ok": 4, "invalid_input": 2}
    assert (statistics["execution_count"], statistics["inference_count"]) == (2, 1 + 4)
    assert statistics["inference_stats"]["success"]["count"] == 4
    assert statistics["inference_stats"]["fail"]["count"] == 2


def test_each_row_has_its_own_kind_and_other_exceptions_give_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    def handle(x: Any) -> Any:
        return [row, ValueError("secret"), Forbidden("not yours"), row] if len(x) == 4 else x

    together = Together(handle)
    answers, *_ = together.ask([[1.0], [2.0], [3.0], [4.0]])
    assert [answer.status for answer in answers] == [200, 500, 403, 200]
    assert (answers[1].error(), answers[2].error()) == ("model 'm' failed: ValueError", "not yours")
    (record,) = [one for one in caplog.records if one.name == "penstock.m"]
    assert record.levelno == logging.ERROR
    assert "secret" in caplog.text


row = np.ones(1, np.float32)


def test_all_rows_may_fail_without_outputs() -> None:
    with Client(
        model(lambda x: [InvalidInput("no")] * len(x), name="m", batching=Batching(max_size=4), **ONE)
    ) as client:
        with pytest.raises(InvalidInput, match=r"^no$"):
            client.infer("m", {"x": np.ones((1, 1), np.float32)})
        with pytest.raises(InvalidInput, match=r"^row 0: no$"):
            client.infer("m", {"x": np.ones((2, 1), np.float32)})


def test_the_lists_of_several_outputs_fail_a_row_together() -> None:
    @model(
        inputs=[Tensor("x", np.float32, [1])],
        outputs=[Tensor("y", np.float32, [1]), Tensor("name", bytes, [])],
        batching=Batching(max_size=4),
    )
    def m(x: Any) -> Any:
        return list(x), [InvalidInput("no name") if value < 0 else b"name" for value in x[:, 0]]

    with Client(m) as client:
        assert client.infer("m", {"x": np.ones((2, 1), np.float32)})["name"].tolist() == [b"name"] * 2
        with pytest.raises(InvalidInput, match=r"^row 1: no name$"):
            client.infer("m", {"x": np.array([[1], [-1]], np.float32)})


def test_a_row_of_a_split_request_is_named_as_its_caller_counts() -> None:
    split = Batching(max_size=2, oversize="split")
    with Client(model(listed, name="m", batching=split, **ONE)) as client:
        for place in range(5):
            x = np.ones((5, 1), np.float32)
            x[place] = -1
            with pytest.raises(InvalidInput, match=rf"^row {place}: no -1$"):
                client.infer("m", {"x": x})


@pytest.mark.parametrize(
    ("errors", "outputs", "text"),
    [
        ({7: InvalidInput("no")}, True, "model 'm' failed row 7 of a batch of 1 rows"),
        ({}, False, "model 'm' returned 0 outputs, declared 1"),
    ],
)
def test_what_does_not_fit_the_batch_fails_it(errors: Any, outputs: bool, text: str) -> None:
    def handle(x: Any) -> Any:
        raise RowErrors(errors, x if outputs else None)

    with Server(model(handle, name="m", batching=Batching(max_size=4), **ONE), http="127.0.0.1:0", grpc=None) as server:
        answer = infer(server.http_url, "m", {"x": np.ones((1, 1), np.float32)})
        assert (answer.status, answer.error()) == (500, text)


def test_row_errors_are_checked_where_they_are_made() -> None:
    with pytest.raises(TypeError, match="row 1 has a str, expected an exception"):
        RowErrors({1: "no"})
    with pytest.raises(ValueError, match="row -1 is below 0"):
        RowErrors({-1: InvalidInput("no")})
    assert RowErrors({np.int64(2): InvalidInput("no")}).errors.keys() == {2}


def test_without_a_batch_axis_there_are_no_rows(caplog: pytest.LogCaptureFixture) -> None:
    def handle(x: Any) -> Any:
        raise RowErrors({0: InvalidInput("no")}, x)

    with Server(model(handle, name="m", **ONE), http="127.0.0.1:0", grpc=None) as server:
        answer = infer(server.http_url, "m", {"x": np.ones(1, np.float32)})
        assert (answer.status, answer.error()) == (500, "model 'm' failed: RowErrors")
    assert "1 rows of the batch failed: [0]" in caplog.text


def streamed(handler: Callable[..., Any], values: list[float]) -> list[tuple[list[float] | None, str]]:
    """What one caller of a stream gets: outputs, or an error."""
    served = model(handler, name="m", batching=Batching(max_size=8), **ONE)
    got: list[tuple[list[float] | None, str]] = []
    with Server(served, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m")
        request.inputs.add(name="x", datatype="FP32", shape=[len(values), 1])
        request.raw_input_contents.append(np.array(values, np.float32).tobytes())
        for answer in service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])):
            raw = answer.infer_response.raw_output_contents
            got.append((np.frombuffer(raw[0], np.float32).tolist() if raw else None, answer.error_message))
    return got


def yields(x: Any) -> Iterator[Any]:
    yield list(x)
    yield [InvalidInput("no") if row[0] < 0 else row * 10 for row in x]
    yield list(x)


async def yields_async(x: Any) -> Any:
    for piece in yields(x):
        yield piece


def yields_errors(x: Any) -> Iterator[Any]:
    yield x
    yield RowErrors({row: InvalidInput("no") for row, _ in below(x)}, x * 10)
    yield x


def raises_errors(x: Any) -> Iterator[Any]:
    yield x
    raise RowErrors({row: InvalidInput("no") for row, _ in below(x)}, x * 10)


async def raises_errors_async(x: Any) -> Any:
    yield x
    raise RowErrors({row: InvalidInput("no") for row, _ in below(x)}, x * 10)


@pytest.mark.parametrize("handler", [yields, yields_async, yields_errors], ids=lambda one: one.__name__)
def test_a_row_of_a_stream_ends_with_its_error(handler: Callable[..., Any]) -> None:
    assert streamed(handler, [3.0]) == [([3.0], ""), ([30.0], ""), ([3.0], "")]
    assert streamed(handler, [-3.0]) == [([-3.0], ""), (None, "no")]
    assert streamed(handler, [3.0, -3.0])[-1] == (None, "row 1: no")


@pytest.mark.parametrize("handler", [raises_errors, raises_errors_async], ids=lambda one: one.__name__)
def test_row_errors_that_a_generator_raises_are_its_end(handler: Callable[..., Any]) -> None:
    assert streamed(handler, [3.0]) == [([3.0], ""), ([30.0], "")]
    assert streamed(handler, [-3.0]) == [([-3.0], ""), (None, "no")]
