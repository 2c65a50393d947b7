"""Exceptions of the client and of request handling."""

from __future__ import annotations

__all__ = ["ModelbitError", "RequestError", "UserFacingError"]


class ModelbitError(Exception):
    """Base class of the client's errors."""


class UserFacingError(ModelbitError):
    """An error whose message is meant for the user."""


class RequestError(Exception):
    """A request that cannot be answered; its message is sent to the client.

    Args:
        text: The value received and the one expected.
        status: The HTTP status.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status
