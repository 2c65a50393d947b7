"""`ModelClient`: blocking calls."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.compat.pytriton.client._base import BaseModelClient, without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, ErrorTexts, synchronous
from penstock.compat.pytriton.client._inputs import Inputs, Values, check_arguments, check_values
from penstock.compat.pytriton.client.exceptions import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientModelDoesntSupportBatchingError,
)
from penstock.compat.pytriton.client.utils import get_model_config, wait_for_model_ready, wait_for_server_ready
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

__all__ = ["ModelClient"]


class ModelClient(BaseModelClient[Client]):
    """A client of one model, over HTTP or gRPC. Threads may share it.

    The arguments are the ones of `BaseModelClient`. It is a context manager.

    Example:
        >>> with ModelClient("localhost", "add") as client:
        ...     total = client.infer_batch(a, b)["sum"]
    """

    def get_lib(self) -> Any:
        """Returns the class of the native client."""
        return Client

    def infer_sample(self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any) -> Any:
        """Runs one sample. Inputs and outputs have no batch axis.

        Args:
            inputs: Inputs in the model's order.
            parameters: Request parameters: strings, integers or booleans.
            headers: Headers of this call, which the server may forward to the model.
            named_inputs: Inputs by name, instead of `inputs`.

        Returns:
            The outputs by name.

        Raises:
            PyTritonClientValueError: an argument is invalid.
            PyTritonClientTimeoutError: the model was not ready, or did not respond, in time.
            PyTritonClientInferenceServerError: the server rejected the request, or the model failed.
        """
        config = self._checked_config(inputs, named_inputs, parameters, headers, is_sample=True)
        return self._infer(config, inputs or named_inputs, parameters, headers, True)

    def infer_batch(self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any) -> Any:
        """Runs a batch: the first axis of all arrays is the batch. Otherwise same as `infer_sample`.

        Raises:
            PyTritonClientModelDoesntSupportBatchingError: the model takes samples only.
        """
        config = self._checked_config(inputs, named_inputs, parameters, headers, is_sample=False)
        return self._infer(config, inputs or named_inputs, parameters, headers, False)

    @property
    def model_config(self) -> TritonModelConfig:
        """Configuration of the model, requested once; waits for the model.

        Raises:
            PyTritonClientTimeoutError: the model was not ready in time.
        """
        if self._model_config is None:
            self._wait_and_init_model_config(self._init_timeout_s)
            assert self._model_config is not None
        return self._model_config

    @property
    def is_batching_supported(self) -> bool:
        """True if the model takes batches; waits for the model."""
        return self.model_config.max_batch_size > 0

    def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the server and the model are ready.

        Raises:
            PyTritonClientTimeoutError: they were not ready in time.
        """
        wait_for_model_ready(self._open(), self._model_name, self._model_version, timeout_s)

    def wait_for_server(self, timeout_s: float) -> None:
        """Waits until the server is ready.

        Raises:
            PyTritonClientTimeoutError: it was not ready in time.
        """
        wait_for_server_ready(self._open(), timeout_s)

    def load_model(self, config: str | None = None, files: Mapping[str, bytes] | None = None) -> None:
        """Loads the model on the server.

        Args:
            config: Configuration as JSON, instead of the server's own.
            files: Files of the model by name (`"file:1/model.py"`), instead of the server's own. They require a
                `config`.

        Raises:
            PyTritonClientInferenceServerError: the server rejects it.
        """
        client = self._open()
        try:
            client.load(self._model_name, config=None if config is None else json.loads(config), files=files)
        except PenstockError as error:
            raise PyTritonClientInferenceServerError(f"Model cannot be loaded. Message: {error}") from error

    def unload_model(self) -> None:
        """Unloads the model on the server.

        Raises:
            PyTritonClientInferenceServerError: the server rejects it.
        """
        client = self._open()
        try:
            client.unload(self._model_name)
        except PenstockError as error:
            raise PyTritonClientInferenceServerError(f"Model cannot be unloaded. Message: {error}") from error

    def close(self) -> None:
        """Closes the connections. The client is unusable afterwards."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Client:
        if self._client is None:
            raise PyTritonClientClosedError(CLOSED)
        return self._client

    def _handle_lazy_init(self) -> None:
        if not self._lazy_init:
            self._wait_and_init_model_config(self._init_timeout_s)

    def _wait_and_init_model_config(self, init_timeout_s: float) -> None:
        deadline = time.monotonic() + init_timeout_s
        self.wait_for_model(init_timeout_s)
        if self._model_config is None:
            left_s = max(0.0, deadline - time.monotonic())
            self._model_config = get_model_config(self._open(), self._model_name, self._model_version, left_s)
        self._model_ready = True

    def _checked_config(
        self, inputs: tuple[Any, ...], named: dict[str, Any], parameters: Values, headers: Values, *, is_sample: bool
    ) -> TritonModelConfig:
        """Validates the arguments of a call, waits for the model, and returns its configuration."""
        check_arguments(inputs, named)
        check_values(parameters)
        check_values(headers)
        self._open()
        if not self._model_ready:
            self._wait_and_init_model_config(self._init_timeout_s)
        config = self.model_config
        if not is_sample and config.max_batch_size <= 0:
            raise PyTritonClientModelDoesntSupportBatchingError(
                f"Model {config.model_name} doesn't support batching - use infer_sample method instead"
            )
        return config

    def _infer(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> Any:
        tensors, options = self._coupled_arguments(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            outputs = dict(client.infer(self._model_name, tensors, **options))
        except PenstockError as error:
            raise self._error_texts().translate(error, client.closed) from error
        return without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs

    def _coupled_arguments(
        self, config: TritonModelConfig, inputs: Inputs, is_sample: bool, parameters: Values, headers: Values
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is decoupled. Use DecoupledModelClient instead.")
        return self._call_arguments(config, inputs, is_sample, parameters, headers)

    def _error_texts(self) -> ErrorTexts:
        return synchronous(self._triton_url.scheme, self._inference_timeout_s)
