"""`AsyncioModelClient`: calls to be awaited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.client import AsyncClient
from penstock.compat.pytriton.client._base import BaseModelClient, without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, Texts, asynchronous
from penstock.compat.pytriton.client._inputs import Inputs, Values, check_arguments, check_values
from penstock.compat.pytriton.client.asyncio_utils import asyncio_get_model_config, asyncio_wait_for_model_ready
from penstock.compat.pytriton.client.exceptions import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientTimeoutError,
)
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from typing_extensions import Self

__all__ = ["AsyncioModelClient"]


class AsyncioModelClient(BaseModelClient[AsyncClient]):
    """A client of one model for asyncio, over HTTP or gRPC. It may be used by any number of tasks at once.

    Arguments are those of `BaseModelClient`. It is an async context manager.

    Example:
        >>> async with AsyncioModelClient("localhost", "add") as client:
        ...     total = (await client.infer_batch(a, b))["sum"]
    """

    def get_lib(self) -> Any:
        """The class of the native client."""
        return AsyncClient

    async def infer_sample(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> dict[str, Any]:
        """Runs one sample; see `ModelClient.infer_sample`."""
        config = await self._checked(inputs, named_inputs, parameters, headers, is_sample=True)
        return await self._infer(config, inputs or named_inputs, parameters, headers, True)

    async def infer_batch(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> dict[str, Any]:
        """Runs a batch; see `ModelClient.infer_batch`."""
        config = await self._checked(inputs, named_inputs, parameters, headers, is_sample=False)
        return await self._infer(config, inputs or named_inputs, parameters, headers, False)

    @property
    def model_config(self) -> Awaitable[TritonModelConfig]:
        """The model's configuration, to be awaited; waits for the model.

        Raises:
            PyTritonClientTimeoutError: the model was not ready in time.
        """
        return self._known_config()

    async def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the server and the model can answer.

        Raises:
            PyTritonClientTimeoutError: they could not in time.
        """
        try:
            await asyncio_wait_for_model_ready(self._open(), self._model_name, self._model_version, timeout_s)
        except PyTritonClientTimeoutError as error:
            late = f"Timeout while waiting for model {self._model_name} to be ready for {timeout_s}s"
            raise type(error)(late) from error

    async def close(self) -> None:
        """Lets the connections go. The client makes no more calls."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Self:
        try:
            if not self._lazy_init:
                await self._wait_and_init_model_config(self._init_timeout_s)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> AsyncClient:
        if self._client is None:
            raise PyTritonClientClosedError(CLOSED)
        return self._client

    def _handle_lazy_init(self) -> None:
        # Nothing can be awaited yet: `async with` does it.
        pass

    async def _known_config(self) -> TritonModelConfig:
        if self._model_config is None:
            await self._wait_and_init_model_config(self._init_timeout_s)
            assert self._model_config is not None
        return self._model_config

    async def _wait_and_init_model_config(self, init_timeout_s: float) -> None:
        deadline = time.monotonic() + init_timeout_s
        await self.wait_for_model(init_timeout_s)
        if self._model_config is None:
            left_s = max(0.0, deadline - time.monotonic())
            self._model_config = await asyncio_get_model_config(
                self._open(), self._model_name, self._model_version, left_s
            )
        self._model_ready = True

    async def _checked(
        self, inputs: tuple[Any, ...], named: dict[str, Any], parameters: Values, headers: Values, *, is_sample: bool
    ) -> TritonModelConfig:
        check_arguments(inputs, named)
        check_values(parameters)
        check_values(headers)
        self._open()
        if not self._model_ready:
            await self._wait_and_init_model_config(self._init_timeout_s)
        config = await self._known_config()
        if not is_sample and config.max_batch_size <= 0:
            raise PyTritonClientModelDoesntSupportBatchingError(
                f"Model {config.model_name} doesn't support batching - use infer_sample method instead"
            )
        return config

    async def _infer(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> dict[str, Any]:
        if config.decoupled:
            raise PyTritonClientInferenceServerError(
                "Model config is decoupled. Use AsyncioDecoupledModelClient instead."
            )
        given, more = self._call(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            outputs = dict(await client.infer(self._model_name, given, **more))
        except PenstockError as error:
            raise self._texts().of(error, client.closed) from error
        return without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs

    def _texts(self) -> Texts:
        return asynchronous(self._triton_url.scheme, self._model_name)
