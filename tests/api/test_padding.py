"""Batches padded to an allowed size, and batches that exceed the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer, metric_at
from penstock import Batching, BatchTooLarge, Context, InvalidInput, Overloaded, RowErrors, Server, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


def column(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32).reshape(-1, 1)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(("pad", "padding"), [("last", 2.0), (True, 2.0), ("zeros", 0.0)])
def test_handler_receives_only_allowed_sizes(rows: int, pad: Any, padding: float) -> None:
    handler_inputs: list[Any] = []

    def handle(x: Any, ctx: Context) -> Any:
        handler_inputs.append(x[:, 0].tolist())
        assert [request.rows for request in ctx.requests] == [rows]
        return x * 10

    with Client(model(handle, name="m", batching=Batching(sizes=[4, 1, 2, 8], pad=pad), **ONE)) as client:
        y = client.infer("m", {"x": column(*[1.0] * (rows - 1), 2.0)})["y"]
    assert y[:, 0].tolist() == [10.0] * (rows - 1) + [20.0]
    size = next(size for size in (1, 2, 4, 8) if size >= rows)
    assert handler_inputs == [[1.0] * (rows - 1) + [2.0] + [padding] * (size - rows)]


@pytest.mark.parametrize(("pad", "padding"), [("last", "three"), ("zeros", "")])
def test_text_rows_are_padded(pad: Any, padding: str) -> None:
    handler_inputs: list[Any] = []

    @model(
        inputs=[Tensor("x", str, [2])],
        outputs=[Tensor("y", str, [2])],
        batching=Batching(sizes=[2, 4], pad=pad),
    )
    def m(x: Any) -> Any:
        handler_inputs.append(x.tolist())
        return x

    texts = [["a", ""], ["bc", "ü"], ["three", "three"]]
    with Client(m) as client:
        assert client.infer("m", {"x": np.array(texts, object)})["y"].tolist() == [
            [text.encode() for text in row] for row in texts
        ]
    assert handler_inputs == [[*texts, [padding] * 2]]


def test_clients_receive_their_own_rows_of_a_padded_batch() -> None:
    gate, sizes = Gate(), list[int]()

    def handle(x: Any) -> Any:
        sizes.append(len(x))
        if len(sizes) == 1:
            gate.enter()
        return [InvalidInput("nine") if row[0] == 9 else row * 10 for row in x]

    served = model(handle, name="m", batching=Batching(sizes=[1, 8]), **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", {"x": column(0)})])
        gate.await_entered()
        for index, values in enumerate([(1,), (2, 3), (9,)]):
            futures += at_once([lambda values=values: infer(url, "m", {"x": column(*values)})])
            until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
        gate.open()
        responses = [future.result() for future in futures]
    assert sizes == [1, 8]
    assert [response.array("y").ravel().tolist() for response in responses[:3]] == [[0], [10], [20, 30]]
    # The padding repeats the last row, which fails: its request gets one error.
    assert (responses[3].status, responses[3].error()) == (400, "nine")


def test_padding_rows_are_dropped_from_streams() -> None:
    @model(streams=True, batching=Batching(sizes=[4]), **ONE)
    def m(x: Any) -> Iterator[Any]:
        assert len(x) == 4
        yield x
        yield [row * 10 for row in x]
        yield RowErrors({3: InvalidInput("padding row")}, x)

    with Server(m, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[np.float32(1).tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        responses = list(service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])))
    assert [response.error_message for response in responses] == [""] * 3
    chunks = [response.infer_response.raw_output_contents[0] for response in responses]
    assert [np.frombuffer(chunk, np.float32).tolist() for chunk in chunks] == [[1], [10], [1]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sizes": [0]}, "size 0 must be an integer of 1 or more"),
        ({"sizes": [2, 4], "max_size": 8}, "max_size 8 is not the largest of the sizes, 4"),
        ({"sizes": [2], "pad": "no"}, "pad must be 'last' or 'zeros', not 'no'"),
    ],
)
def test_invalid_sizes_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batching(**options)
    assert Batching(sizes=[8, 2]).max_size == 8


class OutOfMemoryError(RuntimeError):
    """An error with the name of PyTorch's out-of-memory error."""


class MemoryLimited:
    """A model that fails above `max_rows` rows and whose first call waits for the test."""

    def __init__(self, max_rows: int, error: Callable[[], BaseException], batching: Batching, **options: Any) -> None:
        self.gate, self.sizes, self.max_rows, self.error = Gate(), list[int](), max_rows, error
        self.model = model(self.handle, name="m", batching=batching, **{**ONE, **options})

    def handle(self, x: Any) -> Any:
        self.sizes.append(len(x))
        if len(self.sizes) == 1:
            self.gate.enter()
        if len(x) > self.max_rows:
            x[:] = -1  # Handlers may write to their inputs before they fail.
            raise self.error()
        return x * 10

    def run(self, rows: list[int]) -> list[Any]:
        with Server(self.model, http="127.0.0.1:0", grpc=None) as server:
            url = server.http_url

            def send(index: int, count: int) -> Callable[[], Any]:
                return lambda: infer(url, "m", {"x": column(*[index] * count)})

            futures = at_once([send(0, 1)])
            self.gate.await_entered()
            for index, count in enumerate(rows):
                futures += at_once([send(index + 1, count)])
                until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
            self.gate.open()
            responses = [future.result() for future in futures][1:]
            assert metric_at(url, "penstock_queue_depth") == 0
        for index, (response, count) in enumerate(zip(responses, rows, strict=True)):
            if response.status == 200:
                assert response.array("y").ravel().tolist() == [10 * (index + 1)] * count
        return responses


@pytest.mark.parametrize("error", [BatchTooLarge, OutOfMemoryError])
@pytest.mark.parametrize("wants_context", [False, True])
def test_too_large_batch_is_retried_in_halves(error: type[Exception], wants_context: bool) -> None:
    limited = MemoryLimited(2, lambda: error("no room"), Batching(max_size=8, retry_on_oom=True))
    if wants_context:
        plain = limited.handle

        def handle(x: Any, ctx: Context) -> Any:
            assert sum(request.rows for request in ctx.requests) == len(x)
            assert all(len(request.id) == 0 and "host" in request.headers for request in ctx.requests)
            return plain(x)

        limited.model = model(handle, name="m", batching=Batching(max_size=8, retry_on_oom=True), **ONE)
    responses = limited.run([1] * 8)
    assert [response.status for response in responses] == [200] * 8
    # The size limit is learned: only one batch of four is tried.
    assert limited.sizes == [1, 8, 4, 2, 2, 2, 2]


def test_too_large_single_request_fails_alone() -> None:
    limited = MemoryLimited(2, lambda: BatchTooLarge("3 rows are too many"), Batching(max_size=8, retry_on_oom=True))
    responses = limited.run([1, 3, 1, 2])
    assert [response.status for response in responses] == [200, 413, 200, 200]
    assert responses[1].error() == "3 rows are too many"
    assert limited.sizes[:3] == [1, 7, 1]


def test_without_retry_too_large_batch_returns_429() -> None:
    limited = MemoryLimited(2, lambda: BatchTooLarge("no room"), Batching(max_size=8))
    responses = limited.run([1, 1, 1, 1])
    assert {(response.status, response.error(), response.headers["retry-after"]) for response in responses} == {
        (429, "model 'm' had no memory for a batch of 4 rows, the next ones have 2 at most", "1")
    }


def test_out_of_memory_is_an_ordinary_error_by_default() -> None:
    limited = MemoryLimited(2, lambda: OutOfMemoryError("no room"), Batching(max_size=8))
    responses = limited.run([1, 1, 1])
    assert {(response.status, response.error()) for response in responses} == {
        (500, "model 'm' failed: OutOfMemoryError")
    }


def test_batch_too_large_of_one_request_becomes_too_large() -> None:
    with Client(model(lambda x: _raise(BatchTooLarge("never")), name="m", batching=Batching(), **ONE)) as client:
        with pytest.raises(Exception, match="never") as raised:
            client.infer("m", {"x": column(1)})
        assert type(raised.value).__name__ == "TooLarge"
        assert not isinstance(raised.value, Overloaded)


def _raise(error: BaseException) -> Any:
    raise error
