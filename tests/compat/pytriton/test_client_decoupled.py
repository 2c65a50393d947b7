"""`DecoupledModelClient` and `AsyncioDecoupledModelClient`: streams of responses."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np
import pytest
from native_server import CLIENT_LEFT, RELEASE, Urls

from penstock.compat.pytriton.client import AsyncioDecoupledModelClient, DecoupledModelClient
from penstock.compat.pytriton.client import exceptions as errors
from waiting import PATIENCE, at_once, until

N = np.array([[3]], np.int32)
NONE = np.array([[0]], np.int32)


def numbers(responses: Any) -> list[Any]:
    return [response["i"].tolist() for response in responses]


async def collect(url: str, model: str, method: str, *inputs: Any, **options: Any) -> list[Any]:
    async with AsyncioDecoupledModelClient(url, model, **options) as client:
        return [response["i"].tolist() async for response in getattr(client, method)(*inputs)]


def test_responses_of_batches_and_samples_are_streamed(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "counting") as client:
        assert numbers(client.infer_batch(N)) == [[[0]], [[1]], [[2]]]
        assert numbers(client.infer_sample(n=N[0])) == [[0], [1], [2]]
        assert numbers(client.infer_batch(NONE)) == []
    assert asyncio.run(collect(urls.grpc, "counting", "infer_batch", N)) == [[[0]], [[1]], [[2]]]
    assert asyncio.run(collect(urls.grpc, "counting", "infer_sample", N[0])) == [[0], [1], [2]]
    assert asyncio.run(collect(urls.grpc, "counting", "infer_batch", NONE)) == []


def test_http_is_rejected(urls: Urls) -> None:
    with pytest.raises(
        errors.PyTritonClientValueError, match=r"^DecoupledModelClient is only supported for grpc protocol$"
    ):
        DecoupledModelClient(urls.http, "counting")
    with pytest.raises(
        errors.PyTritonClientValueError, match=r"^AsyncioDecoupledModelClient is only supported for grpc protocol$"
    ):
        asyncio.run(collect(urls.http, "counting", "infer_batch", N))


def test_coupled_model_is_rejected(urls: Urls) -> None:
    x = np.ones(2, np.float32)
    with DecoupledModelClient(urls.grpc, "plain") as client:
        for _ in range(2):
            with pytest.raises(
                errors.PyTritonClientInferenceServerError,
                match=r"^Model config is coupled\. Use ModelClient instead\.$",
            ):
                client.infer_sample(x)
    with pytest.raises(
        errors.PyTritonClientInferenceServerError, match=r"^Model config is coupled\. Use AsyncioModelClient instead\.$"
    ):
        asyncio.run(collect(urls.grpc, "plain", "infer_sample", x))


def test_arguments_are_checked(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "counting") as client:
        with pytest.raises(errors.PyTritonClientValueError, match=r"^Provide input data$"):
            client.infer_batch()
        with pytest.raises(errors.PyTritonClientValueError, match="is not a numpy array"):
            client.infer_batch([1])
        # The stream does not count as in progress.
        assert numbers(client.infer_batch(N)) == [[[0]], [[1]], [[2]]]
    with pytest.raises(errors.PyTritonClientValueError, match=r"^Provide input data$"):
        asyncio.run(collect(urls.grpc, "counting", "infer_batch"))


def test_parameters_and_headers_are_sent(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "counting") as client:
        responses = client.infer_batch(N, parameters={"a": 1}, headers={"header_b": "c"})
        assert len(numbers(responses)) == 3


@pytest.mark.usefixtures("held_back")
def test_second_concurrent_stream_is_rejected(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "halting") as client:
        first = client.infer_batch(N)
        assert next(first)["i"].item() == 0
        with pytest.raises(errors.PyTritonClientInferenceServerError, match=r"^Inference is already in progress$"):
            client.infer_batch(N)
        first.close()
        assert CLIENT_LEFT.wait(PATIENCE)
        with pytest.raises(StopIteration):
            next(first)
        CLIENT_LEFT.clear()
        # A deleted iterator ends its stream too.
        second = client.infer_batch(N)
        next(second)
        del second
        gc.collect()
        assert CLIENT_LEFT.wait(PATIENCE)
        RELEASE.set()
        assert numbers(client.infer_batch(N)) == [[[0]], [[1]]]


@pytest.mark.usefixtures("held_back")
def test_closing_ends_the_stream_with_a_warning(urls: Urls, caplog: pytest.LogCaptureFixture) -> None:
    with DecoupledModelClient(urls.grpc, "halting") as client:
        responses = client.infer_batch(N)
        next(responses)
    assert "DecoupledModelClient is still streaming answers" in caplog.text
    with pytest.raises(errors.PyTritonClientClosedError):
        next(responses)
    assert CLIENT_LEFT.wait(PATIENCE)
    with pytest.raises(errors.PyTritonClientClosedError):
        client.infer_batch(N)


@pytest.mark.usefixtures("held_back")
def test_timeout_of_a_response_applies_to_asyncio_only(urls: Urls) -> None:
    with pytest.raises(
        errors.PyTritonClientTimeoutError,
        match=r"^Timeout while waiting for model halting to return next response 0\.2s$",
    ):
        asyncio.run(collect(urls.grpc, "halting", "infer_batch", N, inference_timeout_s=0.2))


@pytest.mark.usefixtures("held_back")
def test_timeout_of_the_synchronous_client_has_no_effect(urls: Urls) -> None:
    """PyTriton passes it to `Queue.get` in the place of `block`."""
    with DecoupledModelClient(urls.grpc, "halting", inference_timeout_s=0.05) as client:
        responses = client.infer_batch(N)
        assert next(responses)["i"].item() == 0
        [waiting] = at_once([lambda: next(responses)])
        with pytest.raises(TimeoutError):
            # Ten times as long: the response is not given up.
            waiting.result(0.5)
        RELEASE.set()
        assert waiting.result(PATIENCE)["i"].item() == 1


def test_error_between_responses_is_raised(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "breaking") as client:
        for _ in range(2):
            responses = client.infer_batch(N)
            assert next(responses)["i"].item() == 0
            with pytest.raises(
                errors.PyTritonClientInferenceServerError,
                match=r"^Error occurred during inference request. Message: midway$",
            ):
                next(responses)
    with pytest.raises(
        errors.PyTritonClientInferenceServerError, match=r"^Error occurred on Triton Inference Server side:\n midway$"
    ):
        asyncio.run(collect(urls.grpc, "breaking", "infer_batch", N))


def test_rejection_is_raised_by_the_iterator(urls: Urls) -> None:
    with DecoupledModelClient(urls.grpc, "counting") as client:
        responses = client.infer_batch(N.astype(np.float32))
        with pytest.raises(errors.PyTritonClientInferenceServerError, match="FP32"):
            next(responses)
        with client.infer_batch(N) as responses:
            assert len(numbers(responses)) == 3


@pytest.mark.usefixtures("held_back")
def test_asyncio_client_has_concurrent_streams_and_ends_abandoned_ones(urls: Urls) -> None:
    async def main() -> None:
        async with AsyncioDecoupledModelClient(urls.grpc, "counting", lazy_init=False) as client:

            async def one() -> int:
                return len([response async for response in client.infer_batch(N, parameters={"a": 1})])

            assert await asyncio.gather(*(one() for _ in range(10))) == [3] * 10
        async with AsyncioDecoupledModelClient(urls.grpc, "halting") as client:
            responses = client.infer_batch(N)
            async for _ in responses:
                break
            await responses.aclose()  # type: ignore[attr-defined]
            await asyncio.to_thread(until, CLIENT_LEFT.is_set)

    asyncio.run(main())
