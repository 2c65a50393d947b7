"""Warm-up: what instances answer before their model is ready."""

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


def noting(seen: list[np.ndarray[Any, Any]]) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    def handler(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(x.copy())
        return x

    return handler


def shapes(warmup: Any, **options: Any) -> list[tuple[int, ...]]:
    seen: list[np.ndarray[Any, Any]] = []
    with Client(model(noting(seen), name="m", inputs=X, outputs=Y, warmup=warmup, **options)):
        return [one.shape for one in seen]


def test_zeros_are_made_from_the_inputs() -> None:
    seen: list[np.ndarray[Any, Any]] = []
    warm = model(noting(seen), name="m", inputs=[Tensor("x", np.float32, [-1, 3])], outputs=X, warmup=True)
    with (
        pytest.raises(LoadError, match=r"model 'm' version '1' could not be loaded: .*warm-up sample 0: .*'x'"),
        Client(warm),
    ):
        pass
    assert [(one.shape, float(one.sum())) for one in seen] == [((1, 3), 0.0)]


def test_samples_are_answered_in_order_by_each_instance_before_it_is_ready() -> None:
    seen: list[tuple[str, float]] = []

    def handler(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append((threading.current_thread().name + str(threading.get_ident()), float(x[0])))
        return x

    warmup = [{"x": np.full(2, 1, np.float32)}, {"x": [2.0, 2.0]}]
    with Client(model(handler, name="m", inputs=X, outputs=Y, instances=Threads(3), warmup=warmup)):
        threads = {name for name, _ in seen}
        assert len(threads) == 3
        for thread in threads:
            assert [value for name, value in seen if name == thread] == [1.0, 2.0]


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
def test_a_model_with_a_batch_axis_is_warmed_at_several_sizes(warmup: Any, expected: list[tuple[int, ...]]) -> None:
    assert shapes(warmup, batching=Batching(max_size=8)) == expected


def test_streams_are_read_to_their_end() -> None:
    ended = []

    def handler(x: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
        for _ in range(500):
            yield x
        ended.append(True)

    with Client(model(handler, name="m", inputs=X, outputs=Y, warmup=True)):
        assert ended == [True]


def test_documents_and_texts_take_their_examples() -> None:
    seen = []

    @model(warmup=True)
    def titled(document: dict[str, int], title: str) -> str:
        seen.append((document, title))
        return title

    with Client(titled):
        assert seen == [({}, "")] or isinstance(seen[0][0], dict)


def test_a_sequence_begins_and_ends() -> None:
    seen: list[Any] = []

    class Counter:
        def __call__(self, x: np.ndarray[Any, Any], ctx: Context) -> np.ndarray[Any, Any]:
            sequence = ctx.requests[0].sequence
            assert sequence is not None
            seen.append((sequence.id, sequence.start, sequence.end))
            return x

        def close_sequence(self, sequence: Any) -> None:
            seen.append(("closed", sequence.id))

    stateful = model(name="m", inputs=X, outputs=Y, sequences=Sequences(), warmup=True)(Counter)
    with Client(stateful) as client:
        client.infer("m", {"x": np.zeros(2, np.float32)}, parameters={"sequence_id": 1, "sequence_start": True})
        assert seen[:2] == [("penstock-warmup", True, True), ("closed", "penstock-warmup")]


def test_it_counts_nowhere() -> None:
    with Client(
        model(lambda x: x, name="m", inputs=X, outputs=Y, batching=Batching(8), warmup=Warmup(repeat=5))
    ) as client:
        stats = client.get("/v2/models/m/stats").json()["model_stats"][0]
        assert (stats["inference_count"], stats["execution_count"]) == (0, 0)
        assert stats["inference_stats"]["success"]["count"] == 0
        assert stats["batch_stats"] == []
        for line in client.get("/metrics").body.decode().splitlines():
            if 'model="m"' in line and not line.startswith("#") and "bucket" not in line:
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
def test_a_sample_that_fails_fails_the_load(warmup: Any, message: str) -> None:
    bad = model(failing, name="m", inputs=X, outputs=Y, batching=Batching(max_size=8), warmup=warmup)
    with pytest.raises(LoadError) as caught, Client(bad):
        pass
    assert str(caught.value).startswith("model 'm' version '1' could not be loaded: ")
    assert message in str(caught.value)
    assert caught.value.__cause__ is not None


def test_batch_sizes_need_a_batch_axis() -> None:
    with pytest.raises(LoadError, match="batch_sizes are for models with a batch axis"):
        shapes(Warmup(batch_sizes=[2]))


@pytest.mark.parametrize("value", [7, "x", {"x": 1}])
def test_what_is_no_warm_up_is_refused_where_it_is_written(value: Any) -> None:
    with pytest.raises(SignatureError, match="model 'm': warmup must be True, a list of dicts, a callable"):
        model(lambda x: x, name="m", inputs=X, outputs=Y, warmup=value)


@pytest.mark.parametrize("options", [{"repeat": 0}, {"repeat": True}, {"batch_sizes": [0]}, {"batch_sizes": ["1"]}])
def test_values_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Warmup: (repeat|batch_sizes) must be"):
        Warmup(**options)
