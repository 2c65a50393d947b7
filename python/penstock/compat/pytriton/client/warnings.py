"""The clients' warnings. These clients emit none: every call of theirs keeps to its timeout."""

from __future__ import annotations

__all__ = ["NotSupportedTimeoutWarning", "PyTritonWarning"]


class PyTritonWarning(UserWarning):
    """The root of the tree."""


class NotSupportedTimeoutWarning(PyTritonWarning):
    """A timeout that a client cannot keep to."""
