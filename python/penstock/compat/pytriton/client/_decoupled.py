"""`DecoupledModelClient`: streams of responses as iterators."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, ErrorTexts, synchronous_stream
from penstock.compat.pytriton.client._inputs import Inputs, Values
from penstock.compat.pytriton.client._sync import ModelClient
from penstock.compat.pytriton.client.exceptions import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientValueError,
)
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock.client import Client, Stream

__all__ = ["DecoupledModelClient"]

_LOGGER = logging.getLogger(__name__)
_STREAM_LOCK = threading.Lock()
"""Held while the active stream of a client is read or replaced."""


class DecoupledModelClient(ModelClient):
    """A client of one decoupled model, over gRPC. `infer_sample` and `infer_batch` return iterators.

    The arguments are the ones of `BaseModelClient`; `inference_timeout_s` has no effect, as in PyTriton, where it is
    passed as another argument of the queue of responses. A client has one active stream at a time, which ends when its
    iterator is exhausted, closed or deleted.

    Raises:
        PyTritonClientValueError: the URL is not a gRPC URL.

    Example:
        >>> with DecoupledModelClient("grpc://localhost", "chat") as client:
        ...     for response in client.infer_sample(prompt=prompt):
        ...         print(response["text"])
    """

    _active: weakref.ref[ResponseStream] | None = None

    def create_client_from_url(self, url: str, network_timeout_s: float | None = None) -> Client:
        """Same as `BaseModelClient.create_client_from_url`, for gRPC URLs."""
        if self._triton_url.scheme == "http":
            raise PyTritonClientValueError("DecoupledModelClient is only supported for grpc protocol")
        return super().create_client_from_url(url, network_timeout_s)

    def close(self) -> None:
        """Closes the connections, and ends the active stream."""
        with _STREAM_LOCK:
            responses = self._active_stream()
        if responses is not None:
            _LOGGER.warning("DecoupledModelClient is still streaming answers")
            responses.fail(PyTritonClientClosedError(CLOSED))
        super().close()

    def _infer(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> ResponseStream:
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use ModelClient instead.")
        client = self._open()
        responses = ResponseStream(client, self._error_texts(), is_sample and config.max_batch_size > 0)
        with _STREAM_LOCK:
            if self._active_stream() is not None:
                raise PyTritonClientInferenceServerError("Inference is already in progress")
            self._active = weakref.ref(responses)
        try:
            tensors, options = self._call_arguments(config, inputs, is_sample, parameters, headers)
            # Scripts that stream for longer than a minute rely on it.
            options["timeout"] = None
            responses.stream = client.stream(self._model_name, tensors, **options)
        except PenstockError as error:
            # The iterator raises it, same as later errors of the stream.
            responses.fail(self._error_texts().translate(error, client.closed))
        except BaseException:
            responses.close()
            raise
        return responses

    def _active_stream(self) -> ResponseStream | None:
        responses = None if self._active is None else self._active()
        return None if responses is None or responses.is_finished else responses

    def _error_texts(self) -> ErrorTexts:
        return synchronous_stream(self._inference_timeout_s)


class ResponseStream(Iterator["dict[str, Any]"]):
    """Stream of responses, each a dictionary of outputs. It is a context manager too."""

    def __init__(self, client: Client, texts: ErrorTexts, is_sample: bool) -> None:
        self.stream: Stream | None = None
        self.is_finished = False
        self._client, self._error_texts, self._is_sample = client, texts, is_sample
        self._error: Exception | None = None

    def __next__(self) -> dict[str, Any]:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.is_finished or self.stream is None:
            raise StopIteration
        try:
            outputs = dict(next(self.stream))
        except PenstockError as error:
            self.close()
            raise self._error_texts.translate(error, self._client.closed) from error
        except BaseException:
            self.close()
            raise
        return without_batch_axis(outputs) if self._is_sample else outputs

    def fail(self, error: Exception) -> None:
        """Ends the stream. The next read raises the error."""
        self._error = error
        self.close()

    def close(self) -> None:
        """Ends the stream, on the server too."""
        self.is_finished = True
        if self.stream is not None:
            self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
