"""Warnings of the clients. Penstock's clients emit none, because every call obeys its timeout."""

from __future__ import annotations

__all__ = ["NotSupportedTimeoutWarning", "PyTritonWarning"]


class PyTritonWarning(UserWarning):
    """Base class of the clients' warnings."""


class NotSupportedTimeoutWarning(PyTritonWarning):
    """A client does not support a timeout."""
