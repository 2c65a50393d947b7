"""Ragged batches: concatenated rows, padded rows, and windows of similar lengths."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, metric
from penstock import (
    Batching,
    Dim,
    HandlerError,
    InvalidInput,
    Padded,
    Processes,
    Ragged,
    RowErrors,
    Server,
    SignatureError,
    Tensor,
    model,
)
from penstock.testing import Client
from waiting import Gate, at_once, until

RAGGED = Tensor("x", np.float32, [-1], ragged=True)
PADDED = Tensor("x", np.float32, [-1], pad=-1)


class Held:
    """A model whose first call waits, so that later requests share a batch."""

    def __init__(self, handle: Callable[..., Any], inputs: list[Tensor], output: Tensor, **options: Any) -> None:
        self.gate, self.calls = Gate(), list[Any]()
        self.handle = handle
        options = {"batching": Batching(max_size=16), **options}
        self.model = model(self.call, name="m", inputs=inputs, outputs=[output], **options)

    def call(self, *arguments: Any) -> Any:
        self.calls.append(arguments[0] if len(arguments) == 1 else arguments)
        if len(self.calls) == 1:
            self.gate.enter()
        return self.handle(*arguments)

    def run(self, requests: list[np.ndarray[Any, Any]]) -> list[Any]:
        """Outputs or exceptions of the requests, queued in order behind a first one."""
        with Client(self.model) as client:

            def request(x: Any) -> Callable[[], Any]:
                def send() -> Any:
                    try:
                        return client.infer("m", {"x": x})["y"]
                    except (HandlerError, InvalidInput) as error:
                        return error

                return send

            futures = at_once([request(requests[0][:1])])
            self.gate.await_entered()
            for index, x in enumerate(requests):
                futures += at_once([request(x)])

                def is_queued(wanted: int = index + 1) -> bool:
                    return metric(client.get("/metrics").body.decode(), "penstock_queue_depth") == wanted

                until(is_queued)
            self.gate.open()
            return [future.result() for future in futures][1:]


def rows(*shapes: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
    """One request per shape, filled with consecutive numbers."""
    return [np.full(shape, index + 1, np.float32) for index, shape in enumerate(shapes)]


def test_ragged_rows_are_concatenated() -> None:
    held = Held(lambda x: np.array([[row.sum()] for row in x], np.float32), [RAGGED], Tensor("y", np.float32, [1]))
    responses = held.run(rows((1, 3), (2, 1), (1, 0), (1, 2)))
    assert [response.tolist() for response in responses] == [[[3]], [[2], [2]], [[0]], [[8]]]
    first, batch = held.calls
    assert (first.values.tolist(), first.lengths.tolist()) == ([1, 1, 1], [3])
    assert batch.values.tolist() == [1, 1, 1, 2, 2, 4, 4]
    assert batch.lengths.tolist() == [3, 1, 1, 0, 2]
    assert batch.offsets.tolist() == [0, 3, 4, 5, 5, 7]
    assert len(batch) == 5
    assert batch[-1].tolist() == [4, 4]
    assert all(np.shares_memory(row, batch.values) for row in batch if len(row))
    assert batch.values.flags.writeable


def test_outputs_may_be_ragged() -> None:
    output = Tensor("y", np.float32, [-1], ragged=True)
    for handle in (
        lambda x: Ragged(x.values * 10, x.lengths),
        lambda x: [row * 10 for row in x],
        lambda x: {"y": [(row * 10).tolist() for row in x]},
    ):
        requests = rows((1, 3), (2, 1), (1, 0), (1, 2))
        for x, y in zip(requests, Held(handle, [RAGGED], output).run(requests), strict=True):
            assert y.shape == x.shape
            assert (y == x * 10).all()


def test_rows_of_one_request_must_have_equal_output_lengths() -> None:
    def handle(x: Any) -> Any:
        return [row[: index + 1] for index, row in enumerate(x)]

    responses = Held(handle, [RAGGED], Tensor("y", np.float32, [-1], ragged=True)).run(rows((1, 5), (2, 5), (1, 5)))
    assert responses[0].tolist() == [[1]]
    assert "row 1: model 'm' returned 3 steps of output 'y' for this row and 2 for the request's first" in str(
        responses[1]
    )
    assert responses[2].tolist() == [[3, 3, 3, 3]]


def test_ragged_rows_fail_separately() -> None:
    def handle(x: Any) -> Any:
        return [InvalidInput("empty") if len(row) == 0 else row for row in x]

    responses = Held(handle, [RAGGED], Tensor("y", np.float32, [-1], ragged=True)).run(rows((1, 2), (1, 0), (1, 1)))
    assert [responses[0].tolist(), str(responses[1]), responses[2].tolist()] == [[[1, 1]], "empty", [[3]]]

    def errors(x: Any) -> Any:
        return RowErrors({1: InvalidInput("no")}, Ragged(x.values, x.lengths)) if len(x) > 1 else x

    responses = Held(errors, [RAGGED], Tensor("y", np.float32, [-1], ragged=True)).run(rows((1, 2), (1, 3), (1, 1)))
    assert [responses[0].tolist(), str(responses[1]), responses[2].tolist()] == [[[1, 1]], "no", [[3]]]


def test_rows_are_padded_to_the_longest() -> None:
    held = Held(lambda x: x.mask.sum(1, keepdims=True), [PADDED], Tensor("y", np.int64, [1]))
    responses = held.run(rows((1, 3), (2, 1), (1, 0)))
    assert [response.tolist() for response in responses] == [[[3]], [[1], [1]], [[0]]]
    padded = held.calls[1]
    assert padded.values.tolist() == [[1, 1, 1], [2, -1, -1], [2, -1, -1], [-1, -1, -1]]
    assert padded.lengths.tolist() == [3, 1, 1, 0]
    assert padded.mask.tolist() == [[True] * 3, [True, False, False], [True, False, False], [False] * 3]
    first = held.calls[0]
    assert (first.values.tolist(), first.lengths.tolist(), len(first)) == ([[1, 1, 1]], [3], 1)


def test_texts_and_further_axes_are_batched() -> None:
    texts = Tensor("x", str, [-1], pad="-")
    held = Held(lambda x: x.lengths[:, None], [texts], Tensor("y", np.int64, [1]))
    held.run([np.array([["a", "bc"]], object), np.array([["d"], ["e"]], object)])
    assert held.calls[1].values.tolist() == [["a", "bc"], ["d", "-"], ["e", "-"]]

    held = Held(lambda x: x.lengths[:, None], [Tensor("x", bytes, [-1], ragged=True)], Tensor("y", np.int64, [1]))
    held.run([np.array([[b"a", b"bc"]], object), np.array([[b"d"], [b"e"]], object)])
    assert [row.tolist() for row in held.calls[1]] == [[b"a", b"bc"], [b"d"], [b"e"]]

    vectors = Tensor("x", np.float32, [-1, 2], pad=0)
    held = Held(lambda x: x.lengths[:, None], [vectors], Tensor("y", np.int64, [1]))
    held.run([np.ones((1, 2, 2), np.float32), np.ones((1, 1, 2), np.float32)])
    assert held.calls[1].values.tolist() == [[[1, 1], [1, 1]], [[1, 1], [0, 0]]]


def test_different_fixed_axes_do_not_share_a_batch() -> None:
    ragged = Tensor("x", np.float32, [-1, -1], ragged=True)
    held = Held(lambda x: x.lengths[:, None], [ragged], Tensor("y", np.int64, [1]))
    held.run([np.ones((1, length, width), np.float32) for length, width in [(2, 3), (4, 5), (1, 3)]])
    assert [call.values.shape for call in held.calls] == [(2, 3), (3, 3), (4, 5)]


def test_window_separates_short_from_long_rows() -> None:
    output = Tensor("y", np.int64, [1])
    for window, batches in [
        (None, [[8, 7, 1, 6, 2, 40]]),
        (1.5, [[8, 7, 6], [1], [2], [40]]),
        (2, [[8, 7, 6], [1, 2], [40]]),
        ([4, 16], [[8, 7, 6], [1, 2], [40]]),
    ]:
        held = Held(lambda x: x.lengths[:, None], [PADDED], output, batching=Batching(max_size=16, window=window))
        held.run(rows(*[(1, length) for length in (8, 7, 1, 6, 2, 40)]))
        assert [call.lengths.tolist() for call in held.calls[1:]] == batches, window


def test_oldest_request_selects_the_window() -> None:
    held = Held(
        lambda x: x.lengths[:, None], [PADDED], Tensor("y", np.int64, [1]), batching=Batching(max_size=2, window=[10])
    )
    held.run(rows(*[(1, length) for length in (3, 100, 3, 3, 3, 3)]))
    assert [call.lengths.tolist() for call in held.calls[1:]] == [[3, 3], [100], [3, 3], [3]]


def test_padded_batch_costs_its_longest_row_times_rows() -> None:
    for tensor, batches in [(RAGGED, [[2, 2, 6], [3, 1]]), (PADDED, [[2, 2], [6], [3, 1]])]:
        batching = Batching(max_size=16, cost=Dim("x"), max_cost=10)
        held = Held(lambda x: x.lengths[:, None], [tensor], Tensor("y", np.int64, [1]), batching=batching)
        held.run(rows(*[(1, length) for length in (2, 2, 6, 3, 1)]))
        assert [call.lengths.tolist() for call in held.calls[1:]] == batches


def scale(x: Any) -> Any:
    """Each row times ten, and its sum."""
    rows = list(x) if isinstance(x, Ragged) else [row[:length] for row, length in zip(x.values, x.lengths, strict=True)]
    return [row * 10 for row in rows], np.array([[row.sum()] for row in rows], np.float32)


async def scale_async(x: Any) -> Any:
    return scale(x)


@pytest.mark.parametrize("kind", ["thread", "process", "async"])
@pytest.mark.parametrize("tensor", [RAGGED, PADDED], ids=["ragged", "padded"])
def test_ragged_inputs_work_in_threads_processes_and_async(kind: str, tensor: Tensor) -> None:
    handler = scale_async if kind == "async" else scale
    outputs = [Tensor("y", np.float32, [-1], ragged=True), Tensor("sum", np.float32, [1])]
    instances = Processes(1) if kind == "process" else 1
    served = model(
        handler, name="m", inputs=[tensor], outputs=outputs, batching=Batching(max_size=8), instances=instances
    )
    with Client(served) as client:

        def request(length: int) -> Any:
            x = np.arange(length * 2, dtype=np.float32).reshape(2, length)
            send = client.infer("m", {"x": x})
            assert (send["y"] == x * 10).all()
            assert send["y"].shape == x.shape
            assert (send["sum"] == x.sum(1, keepdims=True)).all()

        futures = at_once([lambda length=length: request(length) for length in [3, 0, 7, 1, 3, 2000, 2, 5] * 3])
        for future in futures:
            future.result()


def test_ragged_input_appears_in_config_and_metadata() -> None:
    served = model(
        lambda x: x.lengths[:, None],
        name="m",
        inputs=[RAGGED],
        outputs=[Tensor("y", np.int64, [1])],
        batching=Batching(),
    )
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "m", {"x": np.ones((2, 5), np.float32)}).array("y").tolist() == [[5], [5]]
        config = get(server.http_url, "/v2/models/m/config").json()
        assert config["input"][0]["allow_ragged_batch"] is True
        metadata = get(server.http_url, "/v2/models/m").json()
        assert metadata["inputs"][0]["shape"] == [-1, -1]


def test_invalid_ragged_outputs_are_handler_errors() -> None:
    for output, handle, text in [
        (Tensor("y", np.float32, [-1], ragged=True), lambda x: Ragged([1.0], [1, 0]), "an array of float64"),
        (
            Tensor("y", np.float32, [-1], ragged=True),
            lambda _: Ragged(np.ones(1, np.float32), [1, 0]),
            "with 2 rows for a batch of 1",
        ),
        (
            Tensor("y", np.float32, [-1, 2], ragged=True),
            lambda _: Ragged(np.ones((1, 3), np.float32), [1]),
            r"with shape \[1, 3\], declared \[-1, 2\] for the rows one behind another",
        ),
        (
            Tensor("y", np.float32, [-1], ragged=True),
            lambda _: [1.0],
            "returned a list for output 'y', whose rows do not fit",
        ),
    ]:
        served = model(handle, name="m", inputs=[RAGGED], outputs=[output], batching=Batching())
        with Client(served) as client, pytest.raises(HandlerError, match=text):
            client.infer("m", {"x": np.ones((1, 2), np.float32)})


def test_ragged_and_padded_containers() -> None:
    ragged = Ragged.of([[1, 2], [], [3]])
    assert [row.tolist() for row in ragged] == [[1, 2], [], [3]]
    assert (repr(ragged), repr(Padded(np.zeros((2, 3)), [1, 3]))) == (
        "Ragged(3 rows, [3], float64)",
        "Padded([2, 3], float64)",
    )
    with pytest.raises(IndexError):
        ragged[3]
    for make, text in [
        (lambda: Ragged([1, 2], [1]), r"the lengths make 1, and the values have shape \[2\]"),
        (lambda: Ragged([1], [2, -1]), "numbers of 0 or more"),
        (lambda: Ragged.of([1]), "a row is a number"),
    ]:
        with pytest.raises(ValueError, match=text):
            make()
    restored = pickle.loads(pickle.dumps(PADDED))
    assert (restored.pad, restored.pad_bytes, repr(restored)) == (-1, np.float32(-1).tobytes(), repr(PADDED))
    assert repr(RAGGED) == "Tensor('x', 'FP32', [-1], ragged=True)"


def test_bfloat16_pad_is_rounded_to_nearest() -> None:
    # As float32 0x3DCCCCCD: cut off, its bits would be 0x3DCC.
    assert Tensor("x", "BF16", [-1], pad=0.1).pad_bytes == b"\xcd\x3d"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Tensor("x", np.float32, [3], ragged=True), r"need -1 as their first axis, not shape \[3\]"),
        (
            lambda: Tensor("x", np.float32, [-1], ragged=True, pad=0),
            "either ragged=True, one behind another, or filled up",
        ),
        (lambda: Tensor("x", np.uint8, [-1], pad=-1), "pad -1 is not a value of UINT8"),
        (lambda: Tensor("x", np.int32, [-1], pad=0.5), "pad 0.5 is not a value of INT32"),
        (lambda: Tensor("x", np.int32, [-1], pad=float("nan")), "pad nan is not a value of INT32"),
        (lambda: Tensor("x", np.float32, [-1], pad="0"), "pad '0' is not a value of FP32"),
        (lambda: Tensor("x", str, [-1], pad=0), "pad 0 is not a value of BYTES"),
        (lambda: Batching(window=0.5), "window must be a ratio of 1 or more, not 0.5"),
        (lambda: Batching(window=[]), r"window must be a ratio, or lengths of 1 or more, not \[\]"),
        (lambda: Batching(window=[0]), "window must be a ratio, or lengths"),
    ],
)
def test_invalid_ragged_declarations_are_rejected(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"inputs": [RAGGED]}, "rows of input 'x' differ in length, which needs batching="),
        ({"inputs": [RAGGED], "batching": Batching(sizes=[2])}, r"Batching\(sizes=...\) does not go with rows"),
        (
            {"inputs": [PADDED], "batching": Batching(retry_on_oom=True), "instances": Processes(1)},
            "Processes go with retry_on_oom=True or rows that differ in length",
        ),
        ({"batching": Batching(window=2)}, "window needs an input whose rows may differ in length"),
        ({"outputs": [PADDED], "batching": Batching()}, "output 'x' has pad; only inputs are filled up"),
        ({"outputs": [RAGGED]}, "output 'x' is ragged, and the model has no batching="),
        ({"outputs": [RAGGED], "batching": Batching(), "streams": True}, "the model streams its rows one by one"),
    ],
)
def test_incompatible_options_are_rejected(options: dict[str, Any], text: str) -> None:
    defaults = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
    with pytest.raises(SignatureError, match=text):
        model(lambda x: x, name="m", **{**defaults, **options})
