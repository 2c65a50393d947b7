"""`DecoupledModelClient`: answers in pieces, as an iterator."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._errors import CLOSED, Texts, synchronous_stream
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
_TURNS = threading.Lock()
"""Held for the moment in which a client's stream is looked for or written down."""


class DecoupledModelClient(ModelClient):
    """A client of one decoupled model, over gRPC: `infer_sample` and `infer_batch` give iterators.

    Arguments are those of `BaseModelClient`; `inference_timeout_s` is for each piece. One stream may be
    under way at a time; it ends when its iterator does, is closed, or is let go.

    Raises:
        PyTritonClientValueError: the URL is not one of gRPC.

    Example:
        >>> with DecoupledModelClient("grpc://localhost", "chat") as client:
        ...     for piece in client.infer_sample(prompt=prompt):
        ...         print(piece["text"])
    """

    _under_way: weakref.ref[Pieces] | None = None

    def create_client_from_url(self, url: str, network_timeout_s: float | None = None) -> Client:
        """As `BaseModelClient.create_client_from_url`, of a URL of gRPC."""
        if self._triton_url.scheme == "http":
            raise PyTritonClientValueError("DecoupledModelClient is only supported for grpc protocol")
        return super().create_client_from_url(url, network_timeout_s)

    def close(self) -> None:
        """Lets the connections go, and ends the stream that is under way."""
        with _TURNS:
            pieces = self._stream()
        if pieces is not None:
            _LOGGER.warning("DecoupledModelClient is still streaming answers")
            pieces.give_up(PyTritonClientClosedError(CLOSED))
        super().close()

    def _infer(
        self, config: TritonModelConfig, inputs: Inputs, parameters: Values, headers: Values, is_sample: bool
    ) -> Pieces:
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use ModelClient instead.")
        client = self._open()
        pieces = Pieces(client, self._texts(), is_sample and config.max_batch_size > 0)
        with _TURNS:
            if self._stream() is not None:
                raise PyTritonClientInferenceServerError("Inference is already in progress")
            self._under_way = weakref.ref(pieces)
        try:
            given, more = self._call(config, inputs, is_sample, parameters, headers)
            pieces.stream = client.stream(self._model_name, given, **more)
        except PenstockError as error:
            # The iterator's to raise, as a later one of the same stream would be.
            pieces.give_up(self._texts().of(error, client.closed))
        except BaseException:
            pieces.close()
            raise
        return pieces

    def _stream(self) -> Pieces | None:
        pieces = None if self._under_way is None else self._under_way()
        return None if pieces is None or pieces.is_over else pieces

    def _texts(self) -> Texts:
        return synchronous_stream(self._inference_timeout_s)


class Pieces(Iterator["dict[str, Any]"]):
    """The pieces of one answer, each a dictionary of outputs. It is a context manager too."""

    def __init__(self, client: Client, texts: Texts, is_sample: bool) -> None:
        self.stream: Stream | None = None
        self.is_over = False
        self._client, self._texts, self._is_sample = client, texts, is_sample
        self._error: Exception | None = None

    def __next__(self) -> dict[str, Any]:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.is_over or self.stream is None:
            raise StopIteration
        try:
            outputs = dict(next(self.stream))
        except PenstockError as error:
            self.close()
            raise self._texts.of(error, self._client.closed) from error
        except BaseException:
            self.close()
            raise
        return without_batch_axis(outputs) if self._is_sample else outputs

    def give_up(self, error: Exception) -> None:
        """Ends the stream; whoever waits for a piece is told why."""
        self._error = error
        self.close()

    def close(self) -> None:
        """Ends the stream, on the server too."""
        self.is_over = True
        if self.stream is not None:
            self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
