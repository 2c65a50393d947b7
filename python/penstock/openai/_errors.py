"""Errors in OpenAI's form: status, type and code."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.errors import PenstockError
from penstock.openai._events import event

__all__ = ["OPENAI", "ErrorForm", "ErrorResponse", "Refused", "error_response", "unknown_model"]


class Refused(Exception):
    """An invalid request to a route.

    Args:
        message: What is wrong, and what is expected.
        param: The member that it is about.
    """

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.status, self.code = message, param, status, code


class ErrorForm(NamedTuple):
    """The form of errors of an API."""

    body: Callable[[int, str, str | None, str | None], dict[str, Any]]
    """Body of a response, from its status, the message, the member that it is about, and a code."""
    event: Callable[[dict[str, Any]], bytes]
    """The event of such a body in a stream."""


class ErrorResponse(NamedTuple):
    """Response to a request that failed."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]
    message: str
    code: str | None


_STATUSES = {
    "invalid_input": 400,
    "already_exists": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "unsupported_encoding": 415,
    "overloaded": 429,
    "throttled": 429,
    "cancelled": 499,
    "unsupported": 501,
    "unavailable": 503,
    "timeout": 504,
}
_CODES = {401: "invalid_api_key", 403: "permission_denied", 404: "not_found", 429: "rate_limit_exceeded"}


def unknown_model(name: object) -> Refused:
    """The error for an unknown model."""
    return Refused(f"The model {name!r} does not exist", "model", status=404, code="model_not_found")


def error_response(raised: Exception, form: ErrorForm) -> ErrorResponse:
    """The response for an exception. Errors of the server are logged."""
    headers: dict[str, str] = {}
    if isinstance(raised, Refused):
        status, message, param, code = raised.status, raised.message, raised.param, raised.code
    elif isinstance(raised, PenstockError):
        status, message, param = _STATUSES.get(raised.kind, 500), str(raised), None
        code = _CODES.get(status)
        if raised.retry_after is not None:
            headers["retry-after"] = str(math.ceil(raised.retry_after))
    else:
        logging.getLogger("penstock.openai").error("a request failed", exc_info=raised)
        status, message, param, code = 500, f"The request failed: {type(raised).__name__}", None, None
    return ErrorResponse(status, form.body(status, message, param, code), headers, message, code)


def _body(status: int, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": _type(status), "param": param, "code": code}}


def _type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    if status == 403:
        return "permission_error"
    return "invalid_request_error" if status < 500 else "server_error"


OPENAI = ErrorForm(_body, event)
