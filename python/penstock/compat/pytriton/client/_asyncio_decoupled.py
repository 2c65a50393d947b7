"""`AsyncioDecoupledModelClient`: answers in pieces, as an async iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.compat.pytriton.client._asyncio import AsyncioModelClient
from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._errors import Texts, asynchronous_stream
from penstock.compat.pytriton.client._inputs import Inputs, Values
from penstock.compat.pytriton.client.exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.errors import PenstockError

__all__ = ["AsyncioDecoupledModelClient"]


class AsyncioDecoupledModelClient(AsyncioModelClient):
    """A client of one decoupled model for asyncio, over gRPC: `infer_sample` and `infer_batch` give async iterators.

    Arguments are those of `BaseModelClient`; `inference_timeout_s` is for each piece. Any number of streams
    may be under way at once.

    Example:
        >>> async with AsyncioDecoupledModelClient("grpc://localhost", "chat") as client:
        ...     async for piece in client.infer_sample(prompt=prompt):
        ...         print(piece["text"])
    """

    async def infer_sample(  # type: ignore[override]
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Runs one sample; each piece is as `ModelClient.infer_sample` gives one."""
        config = await self._checked(inputs, named_inputs, parameters, headers, is_sample=True)
        async for piece in self._pieces(config, inputs or named_inputs, parameters, headers, True):
            yield piece

    async def infer_batch(  # type: ignore[override]
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Runs a batch; each piece is as `ModelClient.infer_batch` gives one."""
        config = await self._checked(inputs, named_inputs, parameters, headers, is_sample=False)
        async for piece in self._pieces(config, inputs or named_inputs, parameters, headers, False):
            yield piece

    async def _pieces(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> AsyncIterator[dict[str, Any]]:
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use AsyncioModelClient instead.")
        if self._triton_url.scheme == "http":
            raise PyTritonClientValueError("AsyncioDecoupledModelClient is only supported for grpc protocol")
        given, more = self._call(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            async with client.stream(self._model_name, given, **more) as stream:
                async for result in stream:
                    outputs = dict(result)
                    yield without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs
        except PenstockError as error:
            raise self._texts().of(error, client.closed) from error

    def _texts(self) -> Texts:
        return asynchronous_stream(self._model_name, self._inference_timeout_s)
