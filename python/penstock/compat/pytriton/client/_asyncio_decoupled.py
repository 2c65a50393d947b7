"""`AsyncioDecoupledModelClient`: streams of responses as async iterators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.compat.pytriton.client._asyncio import AsyncioModelClient
from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._errors import ErrorTexts, asynchronous_stream
from penstock.compat.pytriton.client._inputs import Inputs, Values
from penstock.compat.pytriton.client.exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.errors import PenstockError

__all__ = ["AsyncioDecoupledModelClient"]


class AsyncioDecoupledModelClient(AsyncioModelClient):
    """A client of one decoupled model for asyncio, over gRPC. `infer_sample` and `infer_batch` return async iterators.

    The arguments are the ones of `BaseModelClient`; `inference_timeout_s` applies to each response. Streams may run
    concurrently.

    Example:
        >>> async with AsyncioDecoupledModelClient("grpc://localhost", "chat") as client:
        ...     async for response in client.infer_sample(prompt=prompt):
        ...         print(response["text"])
    """

    async def infer_sample(  # type: ignore[override]
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Runs one sample, and yields responses in the form of `ModelClient.infer_sample`."""
        config = await self._checked_config(inputs, named_inputs, parameters, headers, is_sample=True)
        async for response in self._responses(config, inputs or named_inputs, parameters, headers, True):
            yield response

    async def infer_batch(  # type: ignore[override]
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Runs a batch, and yields responses in the form of `ModelClient.infer_batch`."""
        config = await self._checked_config(inputs, named_inputs, parameters, headers, is_sample=False)
        async for response in self._responses(config, inputs or named_inputs, parameters, headers, False):
            yield response

    async def _responses(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> AsyncIterator[dict[str, Any]]:
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use AsyncioModelClient instead.")
        if self._triton_url.scheme == "http":
            raise PyTritonClientValueError("AsyncioDecoupledModelClient is only supported for grpc protocol")
        tensors, options = self._call_arguments(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            async with client.stream(self._model_name, tensors, **options) as stream:
                async for result in stream:
                    outputs = dict(result)
                    yield without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs
        except PenstockError as error:
            raise self._error_texts().translate(error, client.closed) from error

    def _error_texts(self) -> ErrorTexts:
        return asynchronous_stream(self._model_name, self._inference_timeout_s)
