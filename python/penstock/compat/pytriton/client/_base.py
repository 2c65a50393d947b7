"""Base class of the clients of one model."""

from __future__ import annotations

import itertools
from typing import Any, Generic, TypeVar

from penstock.compat.pytriton.client._inputs import Inputs, Values, check_parameters, to_arrays, to_header_texts
from penstock.compat.pytriton.client._url import TritonUrl
from penstock.compat.pytriton.client.auth import create_auth_headers
from penstock.compat.pytriton.client.utils import (
    _DEFAULT_NETWORK_TIMEOUT_S,
    _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
    client_options,
)
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

__all__ = ["DEFAULT_INFERENCE_TIMEOUT_S", "BaseModelClient", "without_batch_axis"]

DEFAULT_INFERENCE_TIMEOUT_S = 60.0
Native = TypeVar("Native")
Self = TypeVar("Self", bound="BaseModelClient[Any]")


class BaseModelClient(Generic[Native]):
    """A client of one model of a server.

    Args:
        url: `host`, `host:port`, `http://host[:port]` or `grpc://host[:port]`.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        lazy_init: Contact the server at the first inference, instead of in the constructor or on entry into
            `async with`.
        init_timeout_s: Timeout until the server and the model are ready; 300 s by default.
        inference_timeout_s: Timeout of one inference, or of one response of an asyncio stream; 60 s by default.
        model_config: Configuration of the model; None requests it from the server.
        ensure_model_is_ready: Wait for the model although `model_config` is given.
        access_token: Token for a server with protected endpoints; sent with every call.

    Raises:
        PyTritonClientInvalidUrlError: the URL is invalid.
    """

    def __init__(
        self,
        url: str,
        model_name: str,
        model_version: str | None = None,
        *,
        lazy_init: bool = True,
        init_timeout_s: float | None = None,
        inference_timeout_s: float | None = None,
        model_config: TritonModelConfig | None = None,
        ensure_model_is_ready: bool = True,
        access_token: str | None = None,
    ) -> None:
        self._init_timeout_s = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if init_timeout_s is None else init_timeout_s
        self._inference_timeout_s = DEFAULT_INFERENCE_TIMEOUT_S if inference_timeout_s is None else inference_timeout_s
        self._network_timeout_s = min(_DEFAULT_NETWORK_TIMEOUT_S, self._init_timeout_s)
        self._triton_url = TritonUrl.from_url(url)
        self._url = self._triton_url.without_scheme
        self._access_token = access_token
        self._headers = None if access_token is None else create_auth_headers(access_token, self._triton_url.scheme)
        self._model_name = model_name
        self._model_version = model_version
        self._model_config = model_config
        self._model_ready = model_config is not None and not ensure_model_is_ready
        self._lazy_init = lazy_init
        self._request_ids = itertools.count()
        self._client: Native | None = self.create_client_from_url(url, network_timeout_s=self._network_timeout_s)
        self._handle_lazy_init()

    @classmethod
    def from_existing_client(cls: type[Self], existing_client: BaseModelClient[Any]) -> Self:
        """Creates a client of the same model, with the same URL and token.

        It reuses the model's configuration if the other client has it.
        """
        return cls(
            existing_client._triton_url.with_scheme,
            existing_client._model_name,
            existing_client._model_version,
            init_timeout_s=existing_client._init_timeout_s,
            inference_timeout_s=existing_client._inference_timeout_s,
            model_config=existing_client._model_config,
            ensure_model_is_ready=False,
            access_token=existing_client._access_token,
        )

    def create_client_from_url(self, url: str, network_timeout_s: float | None = None) -> Native:
        """Creates the native client. Subclasses may override it.

        Args:
            url: As for the constructor.
            network_timeout_s: Timeout of calls other than inferences; 60 s by default.
        """
        timeout_s = _DEFAULT_NETWORK_TIMEOUT_S if network_timeout_s is None else network_timeout_s
        client: Native = self.get_lib()(TritonUrl.from_url(url).with_scheme, **client_options(timeout_s, self._headers))
        return client

    def get_lib(self) -> Any:
        """Returns the class of the native client."""
        raise NotImplementedError

    @property
    def _next_request_id(self) -> str:
        return str(next(self._request_ids))

    def _handle_lazy_init(self) -> None:
        raise NotImplementedError

    def _call_arguments(
        self, config: TritonModelConfig, inputs: Inputs, is_sample: bool, parameters: Values, headers: Values
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the inputs and the other arguments of the native client's `infer`, `stream` and `submit`."""
        tensors = to_arrays(inputs, config.inputs or (), is_sample and config.max_batch_size > 0)
        return tensors, {
            "outputs": [spec.name for spec in config.outputs or ()],
            "parameters": check_parameters(parameters),
            "timeout": self._inference_timeout_s,
            "request_id": self._next_request_id,
            "headers": to_header_texts(headers),
            "version": self._model_version,
        }


def without_batch_axis(outputs: dict[str, Any]) -> dict[str, Any]:
    """Returns the outputs of a sample."""
    return {name: array[0] for name, array in outputs.items()}
