"""`FuturesModelClient`: futures, limits, closing, and the chunking client of PyTriton's guide."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, as_completed
from typing import Any

import numpy as np
import pytest
from native_server import RELEASE, Urls

from penstock.compat.pytriton.client import FuturesModelClient
from penstock.compat.pytriton.client import exceptions as errors
from waiting import PATIENCE, until

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_many_requests_need_few_threads(url: str) -> None:
    with FuturesModelClient(url, "add") as client:
        client.infer_batch(A, A).result(PATIENCE)
        before = threading.active_count()
        futures = [client.infer_batch(A + n, A) for n in range(500)]
        assert threading.active_count() <= before
        for n, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(PATIENCE)["sum"], A * 2 + n)
        assert {*as_completed(futures, PATIENCE)} == {*futures}


def test_samples_and_model_configuration(url: str) -> None:
    with FuturesModelClient(url, "add") as client:
        assert client.wait_for_model(PATIENCE).result(PATIENCE) is None
        assert client.infer_sample(b=A[0], a=A[0]).result(PATIENCE)["sum"].tolist() == [0, 2, 4]
        config = client.model_config()
        assert isinstance(config, Future)
        assert config.result(PATIENCE).max_batch_size == 8
        assert client.model_config().done()


@pytest.mark.parametrize("name", ["max_workers", "max_queue_size"])
def test_limits_are_positive(name: str) -> None:
    for bound in (0, -1):
        with pytest.raises(ValueError, match=rf"^{name} must be greater than 0$"):
            FuturesModelClient("localhost", "m", **{name: bound})


def test_errors_are_raised_by_futures(url: str) -> None:
    with FuturesModelClient(url, "add") as client:
        with pytest.raises(errors.PyTritonClientValueError, match=r"^Use either positional"):
            client.infer_batch(A, b=A).result(PATIENCE)
        with pytest.raises(errors.PyTritonClientInferenceServerError, match="FP64"):
            client.infer_batch(A.astype(np.float64), A).result(PATIENCE)
        assert client.infer_batch(A, A).result(PATIENCE)["sum"].shape == (2, 3)
    with FuturesModelClient(url, "broken") as client:
        error = client.infer_batch(A).exception(PATIENCE)
        assert str(error) == "Error occurred during inference request. Message: it went wrong"
    with FuturesModelClient(["localhost"], "m") as client:  # type: ignore[arg-type]
        for future in (client.infer_sample(A), client.wait_for_model(0.1), client.model_config()):
            assert isinstance(future.exception(PATIENCE), errors.PyTritonClientInvalidUrlError)


def test_unknown_model_fails_the_waiting_requests(url: str) -> None:
    with FuturesModelClient(url, "nope", init_timeout_s=0.2) as client:
        for _ in range(2):
            futures = [client.infer_sample(A) for _ in range(5)]
            for future in futures:
                assert isinstance(future.exception(PATIENCE), errors.PyTritonClientTimeoutError)
        with pytest.raises(errors.PyTritonClientTimeoutError):
            client.wait_for_model(0.1).result(PATIENCE)


@pytest.mark.usefixtures("held_back")
def test_full_queue_rejects_non_blocking_calls_at_once(url: str) -> None:
    bounds: Any = {"max_workers": 2, "max_queue_size": 3}
    with FuturesModelClient(url, "held", non_blocking=True, **bounds) as client:
        futures = [client.infer_batch(A) for _ in range(5)]
        with pytest.raises(errors.PyTritonClientQueueFullError, match=r"^Queue is full$"):
            client.infer_batch(A)
        RELEASE.set()
        assert all(future.result(PATIENCE)["y"].shape == (2, 3) for future in futures)
        # A received response frees its place in the queue.
        for _ in range(50):
            futures = [client.infer_batch(A) for _ in range(5)]
            for future in futures:
                future.result(PATIENCE)


def test_full_queue_blocks_a_call_until_the_inference_timeout() -> None:
    client = FuturesModelClient(
        "127.0.0.1:1", "m", max_workers=1, max_queue_size=1, init_timeout_s=PATIENCE, inference_timeout_s=0.1
    )
    for _ in range(2):
        client.infer_batch(A)
    with pytest.raises(errors.PyTritonClientQueueFullError, match=r"^Queue is full$"):
        client.infer_batch(A)
    client.close(wait=False)


@pytest.mark.usefixtures("held_back")
def test_blocked_call_continues_when_the_queue_has_room(url: str) -> None:
    with FuturesModelClient(url, "held", max_workers=1, max_queue_size=1) as client:
        futures = [client.infer_batch(A), client.infer_batch(A)]
        third: list[Any] = []
        thread = threading.Thread(target=lambda: third.append(client.infer_batch(A).result(PATIENCE)))
        thread.start()
        assert not third
        RELEASE.set()
        thread.join(PATIENCE)
        assert len(third) == 1
        assert all(future.result(PATIENCE) for future in futures)


@pytest.mark.usefixtures("held_back")
def test_cancelled_requests_make_room(url: str) -> None:
    with FuturesModelClient(url, "held", max_workers=1, max_queue_size=2, non_blocking=True) as client:
        running, waiting, last = (client.infer_batch(A) for _ in range(3))
        assert waiting.cancel()
        until(lambda: client._window._in_flight, "the first request to run")
        assert running.cancel()
        RELEASE.set()
        assert last.result(PATIENCE)["y"].shape == (2, 3)
        for future in (running, waiting):
            with pytest.raises(CancelledError):
                future.result()
        assert client.infer_batch(A).result(PATIENCE)["y"].shape == (2, 3)


@pytest.mark.usefixtures("held_back")
def test_closing_finishes_earlier_calls(url: str) -> None:
    client = FuturesModelClient(url, "held", max_workers=2)
    futures = [client.infer_batch(A) for _ in range(6)]
    client.close(wait=False)
    for call in (lambda: client.infer_batch(A), lambda: client.wait_for_model(1), client.model_config):
        with pytest.raises(errors.PyTritonClientClosedError, match=r"^FutureModelClient is already closed$"):
            call()
    assert not any(future.done() for future in futures)
    threading.Timer(0.05, RELEASE.set).start()
    client.close()
    assert all(future.done() for future in futures)
    assert all(future.result()["y"].shape == (2, 3) for future in futures)
    assert client._client is None


def test_unused_client_closes() -> None:
    with FuturesModelClient("127.0.0.1:1", "m"):
        pass


def test_inference_timeout_is_raised(urls: Urls, held_back: None) -> None:
    with FuturesModelClient(urls.http, "held", inference_timeout_s=0.2) as client:
        error = client.infer_batch(A).exception(PATIENCE)
        assert isinstance(error, errors.PyTritonClientTimeoutError)
        assert str(error) == "Timeout occurred during inference request. Timeout: 0.2 s Message: timed out"


def test_callbacks_may_send_requests(url: str) -> None:
    with FuturesModelClient(url, "add", max_workers=1, max_queue_size=1) as client:
        sums: list[Any] = []

        def then(future: Future[Any]) -> None:
            sums.append(client.infer_batch(future.result()["sum"], A).result(PATIENCE)["sum"])

        for _ in range(10):
            client.infer_batch(A, A).add_done_callback(then)
        until(lambda: len(sums) == 10, "the callbacks")
        for one in sums:
            np.testing.assert_array_equal(one, A * 3)


class Chunking(FuturesModelClient):
    """Runs a batch of any size, in parts of the model's maximum batch size."""

    def __init__(self, url: str, model_name: str) -> None:
        super().__init__(url, model_name, max_workers=None)

    def infer_batch(self, *inputs: Any, **named: Any) -> Iterator[Future[Any]]:  # type: ignore[override]
        rows = self.model_config().result(PATIENCE).max_batch_size
        count = len(next(iter(named.values())))
        parts = [{name: array[at : at + rows] for name, array in named.items()} for at in range(0, count, rows)]
        return iter([super(Chunking, self).infer_batch(*inputs, **part) for part in parts])


def test_chunking_client_of_the_guide_splits_batches(url: str) -> None:
    many = np.arange(42, dtype=np.float32).reshape(42, 1)
    with Chunking(url, "add") as client:
        parts = [future.result(PATIENCE)["sum"] for future in client.infer_batch(a=many, b=many)]
        assert [len(part) for part in parts] == [8, 8, 8, 8, 8, 2]
        np.testing.assert_array_equal(np.concatenate(parts), many * 2)
