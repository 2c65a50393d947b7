"""`AsyncioModelClient`: the differences from `ModelClient`."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from native_server import RELEASE, Urls

from penstock.compat.pytriton.client import AsyncioModelClient
from penstock.compat.pytriton.client import exceptions as errors

A = np.arange(6, dtype=np.float32).reshape(2, 3)
Use = Callable[[AsyncioModelClient], Coroutine[Any, Any, Any]]


def use(url: str, model: str, call: Use, **options: Any) -> Any:
    async def main() -> Any:
        async with AsyncioModelClient(url, model, **options) as client:
            return await call(client)

    return asyncio.run(main())


def test_batches_and_samples(url: str) -> None:
    assert use(url, "add", lambda c: c.infer_batch(A, A))["sum"].shape == (2, 3)
    assert use(url, "add", lambda c: c.infer_sample(b=A[0], a=A[0]))["sum"].tolist() == [0, 2, 4]
    assert use(url, "plain", lambda c: c.infer_sample(A[0]))["y"].tolist() == [1, 2, 3]


def test_many_tasks_share_a_client(url: str) -> None:
    async def main() -> None:
        async with AsyncioModelClient(url, "add") as client:
            results = await asyncio.gather(*(client.infer_batch(A + n, A) for n in range(200)))
            assert all((result["sum"] == A * 2 + n).all() for n, result in enumerate(results))

    asyncio.run(main())


def test_configuration_is_requested_once(url: str) -> None:
    async def read_twice(client: AsyncioModelClient) -> Any:
        first = await client.model_config
        assert await client.model_config is first
        return first

    config = use(url, "add", read_twice, lazy_init=False)
    assert (config.model_name, config.max_batch_size) == ("add", 8)
    signature = inspect.signature(AsyncioModelClient)
    assert signature.parameters["lazy_init"].default is True


def test_parameters_headers_and_ids_are_sent(url: str) -> None:
    async def infer(client: AsyncioModelClient) -> Any:
        return await client.infer_batch(A[:1], parameters={"p": 2}, headers={"header_a": 3})

    seen_by_model = json.loads(use(url, "listening", infer)["seen_by_model"][0, 0])
    assert (seen_by_model["p"], seen_by_model["header_a"], seen_by_model["id"]) == (2, "3", "0")


def test_errors_have_pytritons_types_and_texts(url: str) -> None:
    server_side = "^Error occurred on Triton Inference Server side:\n "
    with pytest.raises(errors.PyTritonClientInferenceServerError, match=rf"{server_side}it went wrong$"):
        use(url, "broken", lambda c: c.infer_batch(A))
    with pytest.raises(errors.PyTritonClientValueError, match=r"^Input x is not a numpy array\. Got <class 'list'>"):
        use(url, "plain", lambda c: c.infer_sample([1.0]))
    with pytest.raises(errors.PyTritonClientValueError, match=r"^Provide input data$"):
        use(url, "plain", lambda c: c.infer_sample())
    with pytest.raises(RuntimeError, match=r"^Unicode inputs are not supported"):
        use(url, "text", lambda c: c.infer_sample(np.array(["a"])))
    with pytest.raises(errors.PyTritonClientModelDoesntSupportBatchingError, match=r"use infer_sample method instead$"):
        use(url, "plain", lambda c: c.infer_batch(A))
    with pytest.raises(
        errors.PyTritonClientInferenceServerError,
        match=r"^Model config is decoupled\. Use AsyncioDecoupledModelClient instead\.$",
    ):
        use(url, "counting", lambda c: c.infer_sample(np.array([1], np.int32)))


@pytest.mark.usefixtures("held_back")
def test_inference_timeout_is_raised(urls: Urls) -> None:
    with pytest.raises(
        errors.PyTritonClientTimeoutError, match=r"^Timeout exceeded while running inference for held: timed out$"
    ):
        use(urls.http, "held", lambda c: c.infer_batch(A), inference_timeout_s=0.2)
    with pytest.raises(
        errors.PyTritonClientTimeoutError,
        match=r"^Error occurred on Triton Inference Server side:\n Deadline Exceeded$",
    ):
        use(urls.grpc, "held", lambda c: c.infer_batch(A), inference_timeout_s=0.2)
    RELEASE.set()


def test_missing_server_times_out() -> None:
    with pytest.raises(
        errors.PyTritonClientTimeoutError, match=r"^Timeout while waiting for model m to be ready for 0\.1s$"
    ):
        use("127.0.0.1:1", "m", lambda c: c.infer_sample(A), init_timeout_s=0.1)
    with pytest.raises(errors.PyTritonClientTimeoutError):
        use("127.0.0.1:1", "m", lambda c: c.close(), lazy_init=False, init_timeout_s=0.1)


def test_unknown_model_times_out(url: str) -> None:
    with pytest.raises(errors.PyTritonClientTimeoutError, match=r"model nope to be ready for 0\.2s$") as caught:
        use(url, "nope", lambda c: c.infer_sample(A), init_timeout_s=0.2)
    assert isinstance(caught.value, errors.PyTritonClientModelUnavailableError)


def test_closed_client_is_unusable(url: str) -> None:
    async def main() -> None:
        client = AsyncioModelClient(url, "plain")
        await client.infer_sample(A[0])
        await client.close()
        await client.close()
        with pytest.raises(errors.PyTritonClientClosedError):
            await client.infer_sample(A[0])
        with pytest.raises(errors.PyTritonClientClosedError):
            await client.wait_for_model(1)

    asyncio.run(main())
