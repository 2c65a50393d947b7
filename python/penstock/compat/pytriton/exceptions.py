"""What is raised for wrong use, and what an inference callable may raise."""

from __future__ import annotations

__all__ = [
    "PyTritonBadParameterError",
    "PyTritonError",
    "PyTritonInvalidOperationError",
    "PyTritonModelConfigError",
    "PyTritonRuntimeError",
    "PyTritonUnrecoverableError",
    "PyTritonValidationError",
]


class PyTritonError(Exception):
    """The root of the tree.

    Args:
        message: What is wrong.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        return self._message

    @property
    def message(self) -> str:
        """What is wrong."""
        return self._message


class PyTritonValidationError(PyTritonError):
    """A model, or what is asked of it, is declared wrongly."""


class PyTritonInvalidOperationError(PyTritonError):
    """What is asked for does not go now, such as binding a name twice."""


class PyTritonBadParameterError(PyTritonError):
    """A parameter has a value that it cannot have."""


class PyTritonModelConfigError(PyTritonError):
    """A model's configuration cannot be read."""


class PyTritonUnrecoverableError(PyTritonError):
    """Raised by an inference callable that can never answer again: the whole server stops."""


class PyTritonRuntimeError(PyTritonError):
    """Something went wrong while a request was computed."""
