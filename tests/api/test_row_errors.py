"""Row errors: a failed row fails only its own request."""

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


def raises_row_errors(x: Any) -> Any:
    raise RowErrors({row: InvalidInput(f"no {value:.0f}") for row, value in negative_rows(x)}, x * 10)


def returns_row_errors(x: Any) -> Any:
    return RowErrors({row: InvalidInput(f"no {value:.0f}") for row, value in negative_rows(x)}, x * 10)


def lists_row_errors(x: Any) -> Any:
    return [InvalidInput(f"no {row[0]:.0f}") if row[0] < 0 else row * 10 for row in x]


async def lists_row_errors_async(x: Any) -> Any:
    return lists_row_errors(x)


async def raises_row_errors_async(x: Any) -> Any:
    raises_row_errors(x)


def negative_rows(x: Any) -> Iterator[tuple[Any, Any]]:
    rows = np.flatnonzero(x[:, 0] < 0)
    return zip(rows, x[rows, 0], strict=True)


HANDLERS = [raises_row_errors, returns_row_errors, lists_row_errors, lists_row_errors_async, raises_row_errors_async]


class SharedBatch:
    """A server whose first batch is held, so that later requests share the second one."""

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

        target = held_async if plain in (lists_row_errors_async, raises_row_errors_async) else held
        if target is held_async:
            options["max_concurrency"] = 1
        self.model = model(target, name="m", batching=Batching(max_size=64), **{**ONE, **options})

    def run(self, rows: list[list[float]]) -> tuple[list[Any], dict[str, float], Any]:
        """Responses of requests in one batch, counts of outcomes, and statistics."""
        with Server(self.model, http="127.0.0.1:0", grpc=None) as server:
            url = server.http_url

            def send(values: list[float]) -> Any:
                return infer(url, "m", {"x": np.array(values, np.float32).reshape(-1, 1)})

            futures = at_once([lambda: send([1.0])])
            self.gate.await_entered()
            for index, values in enumerate(rows):
                futures += at_once([lambda values=values: send(values)])
                until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
            self.gate.open()
            responses = [future.result() for future in futures][1:]
            counts = {
                outcome: metric_at(url, "penstock_requests_total", outcome=outcome)
                for outcome in ("ok", "invalid_input")
            }
            return responses, counts, get(url, "/v2/models/m/stats").json()["model_stats"][0]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_only_requests_with_failed_rows_get_errors(handler: Callable[..., Any]) -> None:
    shared_batch = SharedBatch(handler)
    rows = [[2.0], [-3.0], [4.0, 5.0], [6.0, -7.0, -8.0], [9.0]]
    responses, counts, statistics = shared_batch.run(rows)
    assert shared_batch.sizes == [1, 8]
    assert [response.status for response in responses] == [200, 400, 200, 400, 200]
    assert [responses[index].array("y").ravel().tolist() for index in (0, 2, 4)] == [[20], [40, 50], [90]]
    # Errors of multi-row requests name the first failed row of the request.
    assert [responses[index].error() for index in (1, 3)] == ["no -3", "row 1: no -7"]
    assert counts == {"ok": 4, "invalid_input": 2}
    assert (statistics["execution_count"], statistics["inference_count"]) == (2, 1 + 4)
    assert statistics["inference_stats"]["success"]["count"] == 4
    assert statistics["inference_stats"]["fail"]["count"] == 2


def test_row_errors_keep_their_class_and_hide_other_exceptions(caplog: pytest.LogCaptureFixture) -> None:
    def handle(x: Any) -> Any:
        return [row, ValueError("secret"), Forbidden("not yours"), row] if len(x) == 4 else x

    shared_batch = SharedBatch(handle)
    responses, *_ = shared_batch.run([[1.0], [2.0], [3.0], [4.0]])
    assert [response.status for response in responses] == [200, 500, 403, 200]
    assert (responses[1].error(), responses[2].error()) == ("model 'm' failed: ValueError", "not yours")
    (record,) = [record for record in caplog.records if record.name == "penstock.m"]
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


def test_row_fails_if_any_of_its_outputs_is_an_error() -> None:
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


def test_split_request_error_names_the_row_of_the_request() -> None:
    split = Batching(max_size=2, oversize="split")
    with Client(model(lists_row_errors, name="m", batching=split, **ONE)) as client:
        for index in range(5):
            x = np.ones((5, 1), np.float32)
            x[index] = -1
            with pytest.raises(InvalidInput, match=rf"^row {index}: no -1$"):
                client.infer("m", {"x": x})


@pytest.mark.parametrize(
    ("errors", "outputs", "text"),
    [
        ({7: InvalidInput("no")}, True, "model 'm' failed row 7 of a batch of 1 rows"),
        ({}, False, "model 'm' returned 0 outputs, declared 1"),
    ],
)
def test_invalid_row_errors_fail_the_batch(errors: Any, outputs: bool, text: str) -> None:
    def handle(x: Any) -> Any:
        raise RowErrors(errors, x if outputs else None)

    with Server(model(handle, name="m", batching=Batching(max_size=4), **ONE), http="127.0.0.1:0", grpc=None) as server:
        response = infer(server.http_url, "m", {"x": np.ones((1, 1), np.float32)})
        assert (response.status, response.error()) == (500, text)


def test_row_errors_are_validated_at_construction() -> None:
    with pytest.raises(TypeError, match="row 1 has a str, expected an exception"):
        RowErrors({1: "no"})
    with pytest.raises(ValueError, match="row -1 is below 0"):
        RowErrors({-1: InvalidInput("no")})
    assert RowErrors({np.int64(2): InvalidInput("no")}).errors.keys() == {2}


def test_row_errors_of_an_unbatched_model_are_500(caplog: pytest.LogCaptureFixture) -> None:
    def handle(x: Any) -> Any:
        raise RowErrors({0: InvalidInput("no")}, x)

    with Server(model(handle, name="m", **ONE), http="127.0.0.1:0", grpc=None) as server:
        response = infer(server.http_url, "m", {"x": np.ones(1, np.float32)})
        assert (response.status, response.error()) == (500, "model 'm' failed: RowErrors")
    assert "1 rows of the batch failed: [0]" in caplog.text


def stream_chunks(handler: Callable[..., Any], values: list[float]) -> list[tuple[list[float] | None, str]]:
    """Outputs or error message of each chunk of a stream."""
    served = model(handler, name="m", batching=Batching(max_size=8), **ONE)
    chunks: list[tuple[list[float] | None, str]] = []
    with Server(served, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m")
        request.inputs.add(name="x", datatype="FP32", shape=[len(values), 1])
        request.raw_input_contents.append(np.array(values, np.float32).tobytes())
        for response in service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])):
            raw = response.infer_response.raw_output_contents
            chunks.append((np.frombuffer(raw[0], np.float32).tolist() if raw else None, response.error_message))
    return chunks


def yields_lists(x: Any) -> Iterator[Any]:
    yield list(x)
    yield [InvalidInput("no") if row[0] < 0 else row * 10 for row in x]
    yield list(x)


async def yields_lists_async(x: Any) -> Any:
    for chunk in yields_lists(x):
        yield chunk


def yields_errors(x: Any) -> Iterator[Any]:
    yield x
    yield RowErrors({row: InvalidInput("no") for row, _ in negative_rows(x)}, x * 10)
    yield x


def ends_with_errors(x: Any) -> Iterator[Any]:
    yield x
    raise RowErrors({row: InvalidInput("no") for row, _ in negative_rows(x)}, x * 10)


async def ends_with_errors_async(x: Any) -> Any:
    yield x
    raise RowErrors({row: InvalidInput("no") for row, _ in negative_rows(x)}, x * 10)


@pytest.mark.parametrize("handler", [yields_lists, yields_lists_async, yields_errors], ids=lambda send: send.__name__)
def test_row_error_ends_the_stream_of_its_request(handler: Callable[..., Any]) -> None:
    assert stream_chunks(handler, [3.0]) == [([3.0], ""), ([30.0], ""), ([3.0], "")]
    assert stream_chunks(handler, [-3.0]) == [([-3.0], ""), (None, "no")]
    assert stream_chunks(handler, [3.0, -3.0])[-1] == (None, "row 1: no")


@pytest.mark.parametrize("handler", [ends_with_errors, ends_with_errors_async], ids=lambda send: send.__name__)
def test_raised_row_errors_end_a_stream(handler: Callable[..., Any]) -> None:
    assert stream_chunks(handler, [3.0]) == [([3.0], ""), ([30.0], "")]
    assert stream_chunks(handler, [-3.0]) == [([-3.0], ""), (None, "no")]
