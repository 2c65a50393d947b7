"""From the native client's errors to those of PyTriton's clients, with PyTriton's texts."""

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
    "ModelUnavailable",
    "ModelUnavailableTimeout",
    "Texts",
    "asynchronous",
    "asynchronous_stream",
    "synchronous",
    "synchronous_stream",
]

CLOSED = "ModelClient is closed"


class ModelUnavailable(PyTritonClientModelUnavailableError, PyTritonClientInferenceServerError):
    """The server says that it has no such model: also what PyTriton raises then."""


class ModelUnavailableTimeout(PyTritonClientModelUnavailableError, PyTritonClientTimeoutError):
    """The server is ready and the model was not in time: also what PyTriton raises then."""


class Texts:
    """What a client's errors say.

    Args:
        scheme: "http" or "grpc".
        refused: The text of a refusal, of what the server said.
        late: The text of a timeout, of what is known of it.
    """

    def __init__(self, scheme: str, refused: Callable[[str], str], late: Callable[[str], str]) -> None:
        self._scheme, self._refused, self._late = scheme, refused, late

    def of(self, error: PenstockError, closed: bool) -> PyTritonClientError:
        """The exception to raise instead of the native client's, which may be because that is closed."""
        text = str(error)
        if isinstance(error, Timeout):
            return PyTritonClientTimeoutError(
                self._late("timed out" if self._scheme == "http" else "Deadline Exceeded")
            )
        if error.status is None:
            if closed:
                return PyTritonClientClosedError(CLOSED)
            if isinstance(error, InvalidInput):
                return PyTritonClientValueError(text)
            if isinstance(error, Unavailable) and self._scheme == "http":
                # A connection that cannot be made, or was lost, counts as a timeout to PyTriton.
                return PyTritonClientTimeoutError(self._late(text))
        if isinstance(error, NotFound):
            return ModelUnavailable(self._refused(text))
        return PyTritonClientInferenceServerError(self._refused(text))


def _refused(text: str) -> str:
    return f"Error occurred during inference request. Message: {text}"


def _refused_to_task(text: str) -> str:
    return f"Error occurred on Triton Inference Server side:\n {text}"


def synchronous(scheme: str, inference_timeout_s: float) -> Texts:
    """The texts of `ModelClient` and `FuturesModelClient`."""
    late = f"Timeout occurred during inference request. Timeout: {inference_timeout_s} s"
    # As PyTriton has it: gRPC's has a full stop.
    return Texts(scheme, _refused, lambda text: f"{late}{'' if scheme == 'http' else '.'} Message: {text}")


def synchronous_stream(inference_timeout_s: float) -> Texts:
    """The texts of `DecoupledModelClient`."""
    late = f"Timeout occurred during inference request. Timeout: {inference_timeout_s} s"
    return Texts("grpc", _refused, lambda _: late)


def asynchronous(scheme: str, model_name: str) -> Texts:
    """The texts of `AsyncioModelClient`."""
    late = f"Timeout exceeded while running inference for {model_name}"
    return Texts(scheme, _refused_to_task, _refused_to_task if scheme == "grpc" else lambda text: f"{late}: {text}")


def asynchronous_stream(model_name: str, inference_timeout_s: float) -> Texts:
    """The texts of `AsyncioDecoupledModelClient`."""
    late = f"Timeout while waiting for model {model_name} to return next response {inference_timeout_s}s"
    return Texts("grpc", _refused_to_task, lambda _: late)
