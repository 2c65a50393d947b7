"""Errors in OpenAI's form."""

from __future__ import annotations

from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields

__all__ = ["Error", "ErrorResponse"]


class Error(Fields):
    """An error: `code` is the HTTP status as text."""

    code: str | None
    message: str
    param: str | None
    type: str


class ErrorResponse(Fields):
    """The body of an error response."""

    error: Error
