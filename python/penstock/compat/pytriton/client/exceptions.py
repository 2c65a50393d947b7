"""Exceptions of the clients.

::

    PyTritonClientError
    ├── PyTritonClientValueError
    │   └── PyTritonClientInvalidUrlError
    ├── PyTritonClientTimeoutError
    ├── PyTritonClientModelUnavailableError
    ├── PyTritonClientClosedError
    ├── PyTritonClientModelDoesntSupportBatchingError
    ├── PyTritonClientInferenceServerError
    └── PyTritonClientQueueFullError
"""

from __future__ import annotations

__all__ = [
    "PyTritonClientClosedError",
    "PyTritonClientError",
    "PyTritonClientInferenceServerError",
    "PyTritonClientInvalidUrlError",
    "PyTritonClientModelDoesntSupportBatchingError",
    "PyTritonClientModelUnavailableError",
    "PyTritonClientQueueFullError",
    "PyTritonClientTimeoutError",
    "PyTritonClientValueError",
]


class PyTritonClientError(Exception):
    """Base class of the clients' exceptions.

    Args:
        message: Error text; also `message` and `str()` of the exception.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        return self._message

    @property
    def message(self) -> str:
        """Error text."""
        return self._message


class PyTritonClientValueError(PyTritonClientError):
    """An argument is invalid."""


class PyTritonClientInvalidUrlError(PyTritonClientValueError):
    """A URL is invalid."""


class PyTritonClientTimeoutError(PyTritonClientError):
    """The server, the model or a response was not available in time."""


class PyTritonClientModelUnavailableError(PyTritonClientError):
    """The server does not have the model, or the version of it."""


class PyTritonClientClosedError(PyTritonClientError):
    """The client is closed."""


class PyTritonClientModelDoesntSupportBatchingError(PyTritonClientError):
    """A batch was sent to a model that takes single samples only."""


class PyTritonClientInferenceServerError(PyTritonClientError):
    """The server rejected the request, or the model failed."""


class PyTritonClientQueueFullError(PyTritonClientError):
    """The queue of a `FuturesModelClient` is full."""
