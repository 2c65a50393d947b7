"""What the clients raise.

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
    """The root of the tree.

    Args:
        message: What went wrong; also `message` and `str()` of the exception.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        return self._message

    @property
    def message(self) -> str:
        """What went wrong."""
        return self._message


class PyTritonClientValueError(PyTritonClientError):
    """An argument that cannot be used."""


class PyTritonClientInvalidUrlError(PyTritonClientValueError):
    """A URL that cannot be used."""


class PyTritonClientTimeoutError(PyTritonClientError):
    """The server, the model or an answer was not there in time."""


class PyTritonClientModelUnavailableError(PyTritonClientError):
    """The server does not have the model, or that version of it."""


class PyTritonClientClosedError(PyTritonClientError):
    """The client was closed before."""


class PyTritonClientModelDoesntSupportBatchingError(PyTritonClientError):
    """A batch for a model that takes single samples only."""


class PyTritonClientInferenceServerError(PyTritonClientError):
    """The server refused the request, or the model failed."""


class PyTritonClientQueueFullError(PyTritonClientError):
    """A `FuturesModelClient` has as many requests as it may have."""
