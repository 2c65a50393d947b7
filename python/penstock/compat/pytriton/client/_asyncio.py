"""`AsyncioModelClient`: awaitable calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.client import AsyncClient
from penstock.compat.pytriton.client._base import BaseModelClient, without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, ErrorTexts, asynchronous
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
    """A client of one model for asyncio, over HTTP or gRPC. Tasks may share it.

    The arguments are the ones of `BaseModelClient`. It is an async context manager.

    Example:
        >>> async with AsyncioModelClient("localhost", "add") as client:
        ...     total = (await client.infer_batch(a, b))["sum"]
    """

    def get_lib(self) -> Any:
        """Returns the class of the native client."""
        return AsyncClient

    async def infer_sample(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> dict[str, Any]:
        """Runs one sample; see `ModelClient.infer_sample`."""
        config = await self._checked_config(inputs, named_inputs, parameters, headers, is_sample=True)
        return await self._infer(config, inputs or named_inputs, parameters, headers, True)

    async def infer_batch(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> dict[str, Any]:
        """Runs a batch; see `ModelClient.infer_batch`."""
        config = await self._checked_config(inputs, named_inputs, parameters, headers, is_sample=False)
        return await self._infer(config, inputs or named_inputs, parameters, headers, False)

    @property
    def model_config(self) -> Awaitable[TritonModelConfig]:
        """Awaitable configuration of the model; waits for the model.

        Raises:
            PyTritonClientTimeoutError: the model was not ready in time.
        """
        return self._get_config()

    async def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the server and the model are ready.

        Raises:
            PyTritonClientTimeoutError: they were not ready in time.
        """
        try:
            await asyncio_wait_for_model_ready(self._open(), self._model_name, self._model_version, timeout_s)
        except PyTritonClientTimeoutError as error:
            message = f"Timeout while waiting for model {self._model_name} to be ready for {timeout_s}s"
            raise type(error)(message) from error

    async def close(self) -> None:
        """Closes the connections. The client is unusable afterwards."""
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
        # A constructor cannot await anything: `async with` does the initialization.
        pass

    async def _get_config(self) -> TritonModelConfig:
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

    async def _checked_config(
        self, inputs: tuple[Any, ...], named: dict[str, Any], parameters: Values, headers: Values, *, is_sample: bool
    ) -> TritonModelConfig:
        check_arguments(inputs, named)
        check_values(parameters)
        check_values(headers)
        self._open()
        if not self._model_ready:
            await self._wait_and_init_model_config(self._init_timeout_s)
        config = await self._get_config()
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
        tensors, options = self._call_arguments(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            outputs = dict(await client.infer(self._model_name, tensors, **options))
        except PenstockError as error:
            raise self._error_texts().translate(error, client.closed) from error
        return without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs

    def _error_texts(self) -> ErrorTexts:
        return asynchronous(self._triton_url.scheme, self._model_name)
