"""Warm-up: calls that each instance runs before its model is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Context, LoadError, Sequences, SignatureError, Tensor, Threads, Warmup, model
from penstock.testing import Client

X = [Tensor("x", np.float32, [2])]
Y = [Tensor("y", np.float32, [2])]


def recording_handler(calls: list[np.ndarray[Any, Any]]) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    def handler(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(x.copy())
        return x

    return handler


def warmup_shapes(warmup: Any, **options: Any) -> list[tuple[int, ...]]:
    calls: list[np.ndarray[Any, Any]] = []
    with Client(model(recording_handler(calls), name="m", inputs=X, outputs=Y, warmup=warmup, **options)):
        return [array.shape for array in calls]


def test_default_sample_is_zeros_of_the_input_shape() -> None:
    calls: list[np.ndarray[Any, Any]] = []
    warm = model(recording_handler(calls), name="m", inputs=[Tensor("x", np.float32, [-1, 3])], outputs=X, warmup=True)
    with (
        pytest.raises(LoadError, match=r"model 'm' version '1' could not be loaded: .*warm-up sample 0: .*'x'"),
        Client(warm),
    ):
        pass
    assert [(array.shape, float(array.sum())) for array in calls] == [((1, 3), 0.0)]


def test_each_instance_runs_all_samples_in_order_before_ready() -> None:
    calls: list[tuple[str, float]] = []

    def handler(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append((threading.current_thread().name + str(threading.get_ident()), float(x[0])))
        return x

    warmup = [{"x": np.full(2, 1, np.float32)}, {"x": [2.0, 2.0]}]
    with Client(model(handler, name="m", inputs=X, outputs=Y, instances=Threads(3), warmup=warmup)):
        threads = {name for name, _ in calls}
        assert len(threads) == 3
        for thread in threads:
            assert [value for name, value in calls if name == thread] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [
        (True, [(1, 2)]),
        ([{"x": np.zeros(2, np.float32)}], [(1, 2)]),
        ([{"x": np.zeros((3, 2), np.float32)}], [(3, 2)]),
        (Warmup(batch_sizes=[1, 3, 64]), [(1, 2), (3, 2), (8, 2)]),
        (Warmup(batch_sizes=[64, 8]), [(8, 2)]),
        (Warmup(repeat=2), [(1, 2), (1, 2)]),
        (lambda: {"x": [1.0, 2.0]}, [(1, 2)]),
        (lambda: ({"x": np.ones((rows, 2), np.float32)} for rows in (1, 2)), [(1, 2), (2, 2)]),
    ],
)
def test_batched_model_is_warmed_at_several_sizes(warmup: Any, expected: list[tuple[int, ...]]) -> None:
    assert warmup_shapes(warmup, batching=Batching(max_size=8)) == expected


def test_warmup_reads_streams_to_their_end() -> None:
    ended = []

    def handler(x: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
        for _ in range(500):
            yield x
        ended.append(True)

    with Client(model(handler, name="m", inputs=X, outputs=Y, warmup=True)):
        assert ended == [True]


def test_documents_and_texts_use_their_examples() -> None:
    calls = []

    @model(warmup=True)
    def titled(document: dict[str, int], title: str) -> str:
        calls.append((document, title))
        return title

    with Client(titled):
        assert calls == [({}, "")] or isinstance(calls[0][0], dict)


def test_warmup_starts_and_ends_a_sequence() -> None:
    calls: list[Any] = []

    class Counter:
        def __call__(self, x: np.ndarray[Any, Any], ctx: Context) -> np.ndarray[Any, Any]:
            sequence = ctx.requests[0].sequence
            assert sequence is not None
            calls.append((sequence.id, sequence.start, sequence.end))
            return x

        def close_sequence(self, sequence: Any) -> None:
            calls.append(("closed", sequence.id))

    stateful = model(name="m", inputs=X, outputs=Y, sequences=Sequences(), warmup=True)(Counter)
    with Client(stateful) as client:
        client.infer("m", {"x": np.zeros(2, np.float32)}, parameters={"sequence_id": 1, "sequence_start": True})
        assert calls[:2] == [("penstock-warmup", True, True), ("closed", "penstock-warmup")]


def test_warmup_is_excluded_from_statistics_and_metrics() -> None:
    with Client(
        model(lambda x: x, name="m", inputs=X, outputs=Y, batching=Batching(8), warmup=Warmup(repeat=5))
    ) as client:
        stats = client.get("/v2/models/m/stats").json()["model_stats"][0]
        assert (stats["inference_count"], stats["execution_count"]) == (0, 0)
        assert stats["inference_stats"]["success"]["count"] == 0
        assert stats["batch_stats"] == []
        for line in client.get("/metrics").body.decode().splitlines():
            if 'model="m"' in line and not line.startswith(("#", "penstock_ready")) and "bucket" not in line:
                assert line.rsplit(" ", 1)[1] in ("0", "0.0"), line


def failing(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if x.shape[0] == 4:
        raise RuntimeError("secret")
    return x


@pytest.mark.parametrize(
    ("warmup", "message"),
    [
        (Warmup(batch_sizes=[1, 4]), "warm-up sample 0 of 4 rows: model 'm' failed: RuntimeError"),
        ([{"x": np.zeros(2)}], "warm-up sample 0: input 'x' has datatype FP64, model 'm' expects FP32"),
        ([{"x": [0.0, 0.0]}, {"z": [1.0]}], "warm-up sample 1: unexpected input 'z' for model 'm', expected 'x'"),
        ([{}], "warm-up sample 0: input 'x' is missing, model 'm' expects 'x'"),
        ([7], "warm-up sample 0: a dict with a value for each input is expected, not int"),
        (
            [{"x": np.zeros((9, 2), np.float32)}],
            "warm-up sample 0: input 'x' has a batch of 9 rows, model 'm' accepts at most 8",
        ),
        (
            Warmup([{"x": np.zeros((2, 2), np.float32)}], batch_sizes=[4]),
            "warm-up sample 0: input 'x' has 2 rows, with batch_sizes a sample is one row",
        ),
        (Warmup(lambda: [{}][1:][0]), "list index out of range"),  # type: ignore[arg-type]
    ],
)
def test_failed_sample_fails_the_load(warmup: Any, message: str) -> None:
    bad = model(failing, name="m", inputs=X, outputs=Y, batching=Batching(max_size=8), warmup=warmup)
    with pytest.raises(LoadError) as raised, Client(bad):
        pass
    assert str(raised.value).startswith("model 'm' version '1' could not be loaded: ")
    assert message in str(raised.value)
    assert raised.value.__cause__ is not None


def test_batch_sizes_require_a_batch_axis() -> None:
    with pytest.raises(LoadError, match="batch_sizes are for models with a batch axis"):
        warmup_shapes(Warmup(batch_sizes=[2]))


@pytest.mark.parametrize("value", [7, "x", {"x": 1}])
def test_invalid_warmup_is_rejected_at_declaration(value: Any) -> None:
    with pytest.raises(SignatureError, match="model 'm': warmup must be True, a list of dicts, a callable"):
        model(lambda x: x, name="m", inputs=X, outputs=Y, warmup=value)


@pytest.mark.parametrize("options", [{"repeat": 0}, {"repeat": True}, {"batch_sizes": [0]}, {"batch_sizes": ["1"]}])
def test_invalid_warmup_options_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Warmup: (repeat|batch_sizes) must be"):
        Warmup(**options)
