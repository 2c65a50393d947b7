"""Exceptions for invalid use, and exceptions that an inference callable may raise."""

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
    """Base class of PyTriton's exceptions.

    Args:
        message: Error text.
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


class PyTritonValidationError(PyTritonError):
    """A model or a request has an invalid declaration."""


class PyTritonInvalidOperationError(PyTritonError):
    """An operation is invalid in the current state, such as binding a name twice."""


class PyTritonBadParameterError(PyTritonError):
    """A parameter has an invalid value."""


class PyTritonModelConfigError(PyTritonError):
    """A model's configuration cannot be parsed."""


class PyTritonUnrecoverableError(PyTritonError):
    """Raised by an inference callable that cannot serve any more requests: the whole server stops."""


class PyTritonRuntimeError(PyTritonError):
    """The computation of a request failed."""
