"""Translation of the native client's errors to PyTriton's exceptions and texts."""

from __future__ import annotations

from collections.abc import Callable

from penstock.compat.pytriton.client.exceptions import (
    PyTritonClientClosedError,
    PyTritonClientError,
    PyTritonClientInferenceServerError,
    PyTritonClientModelUnavailableError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from penstock.errors import InvalidInput, NotFound, PenstockError, Timeout, Unavailable

__all__ = [
    "CLOSED",
    "ErrorTexts",
    "ModelUnavailable",
    "ModelUnavailableTimeout",
    "asynchronous",
    "asynchronous_stream",
    "synchronous",
    "synchronous_stream",
]

CLOSED = "ModelClient is closed"


class ModelUnavailable(PyTritonClientModelUnavailableError, PyTritonClientInferenceServerError):
    """The server has no such model. It is also an exception that PyTriton raises in this case."""


class ModelUnavailableTimeout(PyTritonClientModelUnavailableError, PyTritonClientTimeoutError):
    """The server is ready, but the model was not in time. It is also an exception that PyTriton raises in this case."""


class ErrorTexts:
    """Error texts of a client.

    Args:
        scheme: "http" or "grpc".
        rejection: Returns the text of a rejection, given the server's text.
        timeout: Returns the text of a timeout, given its details.
    """

    def __init__(self, scheme: str, rejection: Callable[[str], str], timeout: Callable[[str], str]) -> None:
        self._scheme, self._rejection, self._late = scheme, rejection, timeout

    def translate(self, error: PenstockError, closed: bool) -> PyTritonClientError:
        """Returns the exception to raise instead of the native client's, which may be closed."""
        text = str(error)
        # A server in Triton's dialect reports a passed deadline as unavailable; the text names it.
        if isinstance(error, Timeout) or (isinstance(error, Unavailable) and "deadline" in text.lower()):
            return PyTritonClientTimeoutError(
                self._late("timed out" if self._scheme == "http" else "Deadline Exceeded")
            )
        if error.status is None:
            if closed:
                return PyTritonClientClosedError(CLOSED)
            if isinstance(error, InvalidInput):
                return PyTritonClientValueError(text)
            if isinstance(error, Unavailable) and self._scheme == "http":
                # PyTriton reports a failed or lost connection as a timeout.
                return PyTritonClientTimeoutError(self._late(text))
        if isinstance(error, NotFound):
            return ModelUnavailable(self._rejection(text))
        return PyTritonClientInferenceServerError(self._rejection(text))


def _rejection(text: str) -> str:
    return f"Error occurred during inference request. Message: {text}"


def _async_rejection(text: str) -> str:
    return f"Error occurred on Triton Inference Server side:\n {text}"


def synchronous(scheme: str, inference_timeout_s: float) -> ErrorTexts:
    """Returns the texts of `ModelClient` and `FuturesModelClient`."""
    timeout = f"Timeout occurred during inference request. Timeout: {inference_timeout_s} s"
    # Same as PyTriton: the gRPC text has a full stop.
    return ErrorTexts(scheme, _rejection, lambda text: f"{timeout}{'' if scheme == 'http' else '.'} Message: {text}")


def synchronous_stream(inference_timeout_s: float) -> ErrorTexts:
    """Returns the texts of `DecoupledModelClient`."""
    timeout = f"Timeout occurred during inference request. Timeout: {inference_timeout_s} s"
    return ErrorTexts("grpc", _rejection, lambda _: timeout)


def asynchronous(scheme: str, model_name: str) -> ErrorTexts:
    """Returns the texts of `AsyncioModelClient`."""
    timeout = f"Timeout exceeded while running inference for {model_name}"
    return ErrorTexts(
        scheme, _async_rejection, _async_rejection if scheme == "grpc" else lambda text: f"{timeout}: {text}"
    )


def asynchronous_stream(model_name: str, inference_timeout_s: float) -> ErrorTexts:
    """Returns the texts of `AsyncioDecoupledModelClient`."""
    timeout = f"Timeout while waiting for model {model_name} to return next response {inference_timeout_s}s"
    return ErrorTexts("grpc", _async_rejection, lambda _: timeout)
