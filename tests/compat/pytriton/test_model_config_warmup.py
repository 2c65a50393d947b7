"""1.6: data of warm-up requests, and the calls of callables with them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bound import bound, rows, stream_outputs

from penstock.compat.pytriton.decorators import batch, first_value
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.model_config.common import (
    ModelWarmup,
    WarmupInput,
    generate_warmup_data,
    generate_warmup_requests,
)


def test_data_is_zero_or_read_from_a_file(tmp_path: Path) -> None:
    assert generate_warmup_data(WarmupInput(np.int32, (2,), zero_data=True), 3).tolist() == [[0, 0]] * 3
    path = str(tmp_path / "x.npy")
    np.save(path, np.array([[1, 2], [3, 4]]))
    from_file = WarmupInput(np.float32, (2,), zero_data=True, input_data_file=path)
    assert generate_warmup_data(from_file, 3).tolist() == [[1, 2], [3, 4], [1, 2]]
    assert generate_warmup_data(from_file, 1).tolist() == [[1, 2]]
    assert generate_warmup_data(from_file, 1).dtype == np.float32
    np.save(path, np.array([5, 6]))
    assert generate_warmup_data(from_file, 2).tolist() == [[5, 6], [5, 6]]
    with pytest.raises(PyTritonBadParameterError, match="doesn't match expected shape"):
        generate_warmup_data(WarmupInput(np.float32, (3, 1), input_data_file=path), 2)
    with pytest.raises(PyTritonBadParameterError, match="One of 'zero_data', 'random_data', or 'input_data_file'"):
        generate_warmup_data(WarmupInput(np.float32, (3,)), 2)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, object, np.bytes_])
def test_random_data_has_the_declared_dtype(dtype: Any) -> None:
    generated = generate_warmup_data(WarmupInput(dtype, (50,), random_data=True), 4)
    assert generated.shape == (4, 50)
    assert generated.dtype.kind == np.dtype(dtype).kind
    if dtype in (object, np.bytes_):
        assert all(8 <= len(text) <= 32 and text.isalnum() for text in generated.ravel().tolist())
    elif dtype in (np.int64, np.float16, np.float64):
        assert 0 <= generated.min() <= generated.max() < 100
    assert len(set(generated.ravel().tolist())) > 1


def test_requests_are_generated_count_times() -> None:
    zero = WarmupInput(np.float32, (1,), zero_data=True)
    generated = generate_warmup_requests([ModelWarmup("a", 2, {"x": zero, "z": zero}, 2)], [], [])
    assert [{name: array.shape for name, array in one.items()} for one in generated] == [{"x": (2, 1), "z": (2, 1)}] * 2
    assert generate_warmup_requests([], [], []) == []


WARMUP = [ModelWarmup("two", 2, {"x": WarmupInput(np.float32, (1,), zero_data=True)}, 3)]


def test_all_instances_are_warmed_up_before_the_first_request() -> None:
    seen: list[tuple[int, list[int]]] = []

    def instance(number: int) -> Any:
        def infer(requests: list[Any]) -> list[dict[str, Any]]:
            seen.append((number, [len(request["x"]) for request in requests]))
            return [{"y": request["x"]} for request in requests]

        return infer

    with bound([instance(0), instance(1)], model_warmup=WARMUP) as client:
        assert sorted(seen) == [(number, [2]) for number in (0, 0, 0, 1, 1, 1)]
        client.infer("m", {"x": rows(1)})
    assert len(seen) == 7


def test_decorators_have_their_context_during_warmup() -> None:
    seen = []

    @batch
    @first_value("x")
    def infer(x: Any) -> list[Any]:
        seen.append(x)
        return [np.full((2, 1), x, np.float32)]

    with bound(infer, model_warmup=WARMUP):
        assert seen == [0.0, 0.0, 0.0]


def test_warmup_awaits_async_callables_and_exhausts_generators() -> None:
    seen = []

    async def awaited(requests: list[Any]) -> list[dict[str, Any]]:
        seen.append("awaited")
        return [{"y": request["x"]} for request in requests]

    def generator(requests: list[Any]) -> Iterator[list[dict[str, Any]]]:
        for _ in range(2):
            yield [{"y": request["x"]} for request in requests]
        seen.append("generator")

    async def async_generator(requests: list[Any]) -> AsyncIterator[list[dict[str, Any]]]:
        for _ in range(2):
            yield [{"y": request["x"]} for request in requests]
        seen.append("async")

    with bound(awaited, model_warmup=WARMUP) as client:
        client.infer("m", {"x": rows(1)})
        assert seen == ["awaited"] * 4
    for callable_, name in ((generator, "generator"), (async_generator, "async")):
        seen.clear()
        with bound(callable_, model_warmup=WARMUP, decoupled=True) as client:
            assert stream_outputs(client, 1) == [[1.0], [1.0]]
            assert seen == [name] * 4


def test_warmup_without_batching_has_no_batch_axis() -> None:
    seen = []

    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        seen.append(requests[0]["x"].shape)
        return [{"y": requests[0]["x"]}]

    with bound(infer, model_warmup=WARMUP, batching=False):
        assert seen == [(1,)] * 3


@pytest.mark.parametrize("kind", ["def", "async def", "generator"])
def test_failed_warmup_is_logged_and_the_model_serves(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    warm = threading.Event()

    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        if not warm.is_set():
            raise OSError("too cold")
        return [{"y": request["x"]} for request in requests]

    async def infer_async(requests: list[Any]) -> list[dict[str, Any]]:
        return infer(requests)

    def generator(requests: list[Any]) -> Iterator[list[dict[str, Any]]]:
        yield infer(requests)

    chosen = {"def": infer, "async def": infer_async, "generator": generator}[kind]
    unreadable = ModelWarmup("none", 1, {"x": WarmupInput(np.float32, (1,), input_data_file="none.npy")}, 1)
    with bound(chosen, model_warmup=WARMUP, decoupled=kind == "generator") as client:
        client.post("/v2/models/m/generate_stream", '{"x": [1]}')
    # Three warm-up calls, and one for the request.
    assert caplog.text.count("OSError: too cold") == 4
    assert caplog.text.count("a warm-up request failed") == 3
    with bound(chosen, model_warmup=[unreadable], decoupled=kind == "generator") as client:
        warm.set()
        assert stream_outputs(client, 1) == [[1.0]]
    assert "the warm-up data cannot be generated" in caplog.text
