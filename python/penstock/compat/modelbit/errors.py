"""What goes wrong, as whoever calls sees it."""

from __future__ import annotations

__all__ = ["BadCall", "ModelbitError", "UserFacingError"]


class ModelbitError(Exception):
    """Something could not be done."""


class UserFacingError(ModelbitError):
    """Something could not be done, and the message says to the user why."""


class BadCall(Exception):
    """A request cannot be answered; the text is for its caller.

    Args:
        text: What was given, and what is expected.
        status: The HTTP status.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status
