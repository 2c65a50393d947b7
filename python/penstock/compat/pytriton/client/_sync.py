"""`ModelClient`: calls that wait for their answer."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.compat.pytriton.client._base import BaseModelClient, without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, Texts, synchronous
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
    """A client of one model, over HTTP or gRPC. It may be used by any number of threads at once.

    Arguments are those of `BaseModelClient`. It is a context manager.

    Example:
        >>> with ModelClient("localhost", "add") as client:
        ...     total = client.infer_batch(a, b)["sum"]
    """

    def get_lib(self) -> Any:
        """The class of the native client."""
        return Client

    def infer_sample(self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any) -> Any:
        """Runs one sample: arrays without a batch axis, in and out.

        Args:
            inputs: The model's inputs, in its order.
            parameters: The request's parameters: texts, integers or booleans.
            headers: Headers of this call, which the server may hand to the model.
            named_inputs: The inputs by name, instead of `inputs`.

        Returns:
            The outputs that the server sent, by name.

        Raises:
            PyTritonClientValueError: an argument cannot be used.
            PyTritonClientTimeoutError: the model was not ready, or had not answered, in time.
            PyTritonClientInferenceServerError: the server refused, or the model failed.
        """
        config = self._checked(inputs, named_inputs, parameters, headers, is_sample=True)
        return self._infer(config, inputs or named_inputs, parameters, headers, True)

    def infer_batch(self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any) -> Any:
        """Runs a batch: arrays whose first axis is the batch. Otherwise as `infer_sample`.

        Raises:
            PyTritonClientModelDoesntSupportBatchingError: the model takes samples only.
        """
        config = self._checked(inputs, named_inputs, parameters, headers, is_sample=False)
        return self._infer(config, inputs or named_inputs, parameters, headers, False)

    @property
    def model_config(self) -> TritonModelConfig:
        """The model's configuration, asked for once; waits for the model.

        Raises:
            PyTritonClientTimeoutError: the model was not ready in time.
        """
        if self._model_config is None:
            self._wait_and_init_model_config(self._init_timeout_s)
            assert self._model_config is not None
        return self._model_config

    @property
    def is_batching_supported(self) -> bool:
        """Whether the model takes batches; waits for the model."""
        return self.model_config.max_batch_size > 0

    def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the server and the model can answer.

        Raises:
            PyTritonClientTimeoutError: they could not in time.
        """
        wait_for_model_ready(self._open(), self._model_name, self._model_version, timeout_s)

    def wait_for_server(self, timeout_s: float) -> None:
        """Waits until the server can answer.

        Raises:
            PyTritonClientTimeoutError: it could not in time.
        """
        wait_for_server_ready(self._open(), timeout_s)

    def load_model(self, config: str | None = None, files: Mapping[str, bytes] | None = None) -> None:
        """Has the server load the model.

        Args:
            config: The model's configuration as JSON, instead of the server's.
            files: The model's files by name (`"file:1/model.py"`), instead of the server's; they need a
                `config` beside them.

        Raises:
            PyTritonClientInferenceServerError: the server does not.
        """
        client = self._open()
        try:
            client.load(self._model_name, config=None if config is None else json.loads(config), files=files)
        except PenstockError as error:
            raise PyTritonClientInferenceServerError(f"Model cannot be loaded. Message: {error}") from error

    def unload_model(self) -> None:
        """Has the server unload the model.

        Raises:
            PyTritonClientInferenceServerError: the server does not.
        """
        client = self._open()
        try:
            client.unload(self._model_name)
        except PenstockError as error:
            raise PyTritonClientInferenceServerError(f"Model cannot be unloaded. Message: {error}") from error

    def close(self) -> None:
        """Lets the connections go. The client makes no more calls."""
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

    def _checked(
        self, inputs: tuple[Any, ...], named: dict[str, Any], parameters: Values, headers: Values, *, is_sample: bool
    ) -> TritonModelConfig:
        """The configuration of a model that can answer what is asked, once it can."""
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
        given, more = self._coupled_call(config, inputs, is_sample, parameters, headers)
        client = self._open()
        try:
            outputs = dict(client.infer(self._model_name, given, **more))
        except PenstockError as error:
            raise self._texts().of(error, client.closed) from error
        return without_batch_axis(outputs) if is_sample and config.max_batch_size > 0 else outputs

    def _coupled_call(
        self, config: TritonModelConfig, inputs: Inputs, is_sample: bool, parameters: Values, headers: Values
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is decoupled. Use DecoupledModelClient instead.")
        return self._call(config, inputs, is_sample, parameters, headers)

    def _texts(self) -> Texts:
        return synchronous(self._triton_url.scheme, self._inference_timeout_s)
