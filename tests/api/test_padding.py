"""Batches that are filled up to an allowed size, and batches that are too large for the memory."""

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
@pytest.mark.parametrize(("pad", "filling"), [("last", 2.0), (True, 2.0), ("zeros", 0.0)])
def test_a_handler_sees_allowed_sizes_only(rows: int, pad: Any, filling: float) -> None:
    seen: list[Any] = []

    def handle(x: Any, ctx: Context) -> Any:
        seen.append(x[:, 0].tolist())
        assert [one.rows for one in ctx.requests] == [rows]
        return x * 10

    with Client(model(handle, name="m", batching=Batching(sizes=[4, 1, 2, 8], pad=pad), **ONE)) as client:
        y = client.infer("m", {"x": column(*[1.0] * (rows - 1), 2.0)})["y"]
    assert y[:, 0].tolist() == [10.0] * (rows - 1) + [20.0]
    size = next(size for size in (1, 2, 4, 8) if size >= rows)
    assert seen == [[1.0] * (rows - 1) + [2.0] + [filling] * (size - rows)]


@pytest.mark.parametrize(("pad", "filling"), [("last", "three"), ("zeros", "")])
def test_text_is_filled_up_too(pad: Any, filling: str) -> None:
    seen: list[Any] = []

    @model(
        inputs=[Tensor("x", str, [2])],
        outputs=[Tensor("y", str, [2])],
        batching=Batching(sizes=[2, 4], pad=pad),
    )
    def m(x: Any) -> Any:
        seen.append(x.tolist())
        return x

    sent = [["a", ""], ["bc", "ü"], ["three", "three"]]
    with Client(m) as client:
        assert client.infer("m", {"x": np.array(sent, object)})["y"].tolist() == [
            [text.encode() for text in row] for row in sent
        ]
    assert seen == [[*sent, [filling] * 2]]


def test_several_callers_get_their_own_rows_of_a_filled_batch() -> None:
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
        answers = [future.result() for future in futures]
    assert sizes == [1, 8]
    assert [answer.array("y").ravel().tolist() for answer in answers[:3]] == [[0], [10], [20, 30]]
    # The row that filled the batch up was the last one, which failed: that is one error, not five.
    assert (answers[3].status, answers[3].error()) == (400, "nine")


def test_a_stream_of_a_filled_batch() -> None:
    @model(streams=True, batching=Batching(sizes=[4]), **ONE)
    def m(x: Any) -> Iterator[Any]:
        assert len(x) == 4
        yield x
        yield [row * 10 for row in x]
        yield RowErrors({3: InvalidInput("nobody's")}, x)

    with Server(m, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[np.float32(1).tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        answers = list(service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request])))
    assert [answer.error_message for answer in answers] == [""] * 3
    pieces = [answer.infer_response.raw_output_contents[0] for answer in answers]
    assert [np.frombuffer(piece, np.float32).tolist() for piece in pieces] == [[1], [10], [1]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sizes": [0]}, "size 0 must be an integer of 1 or more"),
        ({"sizes": [2, 4], "max_size": 8}, "max_size 8 is not the largest of the sizes, 4"),
        ({"sizes": [2], "pad": "no"}, "pad must be 'last' or 'zeros', not 'no'"),
    ],
)
def test_sizes_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Batching(**options)
    assert Batching(sizes=[8, 2]).max_size == 8


class OutOfMemoryError(RuntimeError):
    """Named as PyTorch's."""


class Small:
    """A model whose memory holds so many rows, and whose first call waits for the test."""

    def __init__(self, most: int, error: Callable[[], BaseException], batching: Batching, **options: Any) -> None:
        self.gate, self.sizes, self.most, self.error = Gate(), list[int](), most, error
        self.model = model(self.handle, name="m", batching=batching, **{**ONE, **options})

    def handle(self, x: Any) -> Any:
        self.sizes.append(len(x))
        if len(self.sizes) == 1:
            self.gate.enter()
        if len(x) > self.most:
            x[:] = -1  # It may write to its inputs before it fails.
            raise self.error()
        return x * 10

    def ask(self, rows: list[int]) -> list[Any]:
        with Server(self.model, http="127.0.0.1:0", grpc=None) as server:
            url = server.http_url

            def one(index: int, count: int) -> Callable[[], Any]:
                return lambda: infer(url, "m", {"x": column(*[index] * count)})

            futures = at_once([one(0, 1)])
            self.gate.await_entered()
            for index, count in enumerate(rows):
                futures += at_once([one(index + 1, count)])
                until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
            self.gate.open()
            answers = [future.result() for future in futures][1:]
            assert metric_at(url, "penstock_queue_depth") == 0
        for index, (answer, count) in enumerate(zip(answers, rows, strict=True)):
            if answer.status == 200:
                assert answer.array("y").ravel().tolist() == [10 * (index + 1)] * count
        return answers


@pytest.mark.parametrize("error", [BatchTooLarge, OutOfMemoryError])
@pytest.mark.parametrize("wants_context", [False, True])
def test_a_batch_that_is_too_large_runs_again_in_halves(error: type[Exception], wants_context: bool) -> None:
    small = Small(2, lambda: error("no room"), Batching(max_size=8, retry_on_oom=True))
    if wants_context:
        plain = small.handle

        def handle(x: Any, ctx: Context) -> Any:
            assert sum(one.rows for one in ctx.requests) == len(x)
            assert all(len(one.id) == 0 and "host" in one.headers for one in ctx.requests)
            return plain(x)

        small.model = model(handle, name="m", batching=Batching(max_size=8, retry_on_oom=True), **ONE)
    answers = small.ask([1] * 8)
    assert [answer.status for answer in answers] == [200] * 8
    # The size is remembered: no batch of four is tried twice.
    assert small.sizes == [1, 8, 4, 2, 2, 2, 2]


def test_a_request_that_is_too_large_by_itself_is_told_so_alone() -> None:
    small = Small(2, lambda: BatchTooLarge("3 rows are too many"), Batching(max_size=8, retry_on_oom=True))
    answers = small.ask([1, 3, 1, 2])
    assert [answer.status for answer in answers] == [200, 413, 200, 200]
    assert answers[1].error() == "3 rows are too many"
    assert small.sizes[:3] == [1, 7, 1]


def test_without_kept_inputs_the_callers_are_told_to_come_back() -> None:
    small = Small(2, lambda: BatchTooLarge("no room"), Batching(max_size=8))
    answers = small.ask([1, 1, 1, 1])
    assert {(answer.status, answer.error(), answer.headers["retry-after"]) for answer in answers} == {
        (429, "model 'm' had no memory for a batch of 4 rows, the next ones have 2 at most", "1")
    }


def test_out_of_memory_is_any_other_exception_unless_asked_for() -> None:
    small = Small(2, lambda: OutOfMemoryError("no room"), Batching(max_size=8))
    answers = small.ask([1, 1, 1])
    assert {(answer.status, answer.error()) for answer in answers} == {(500, "model 'm' failed: OutOfMemoryError")}


def test_batch_too_large_is_a_too_large() -> None:
    with Client(model(lambda x: _raise(BatchTooLarge("never")), name="m", batching=Batching(), **ONE)) as client:
        with pytest.raises(Exception, match="never") as told:
            client.infer("m", {"x": column(1)})
        assert type(told.value).__name__ == "TooLarge"
        assert not isinstance(told.value, Overloaded)


def _raise(error: BaseException) -> Any:
    raise error
