"""Exceptions of the REST client, which are httpx's classes too once the script has loaded httpx.

A script that catches `httpx.HTTPStatusError` has imported httpx by then; others catch these classes.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from penstock.errors import InvalidInput, PenstockError, Timeout, Unavailable

__all__ = [
    "ConnectError",
    "ConnectTimeout",
    "HTTPStatusError",
    "InvalidURL",
    "ReadError",
    "ReadTimeout",
    "Request",
    "Response",
    "invalid_url",
    "of_native",
    "status_error",
]


class Request:
    """A request, in place of httpx's class."""

    def __init__(self, method: str, url: str, headers: Mapping[str, str]) -> None:
        self.method = method
        self.url = url
        self.headers = dict(headers)


class Response:
    """A response, with httpx's attribute names."""

    def __init__(self, request: Request, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.request = request
        self.url = request.url
        self.status_code = status_code
        self.headers = dict(headers)
        self.content = content

    @property
    def is_success(self) -> bool:
        """True for a status of 2xx."""
        return 200 <= self.status_code < 300

    @property
    def reason_phrase(self) -> str:
        """The reason phrase of the status."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Returns the body as JSON."""
        return json.loads(self.content)


class HTTPStatusError(Exception):
    """The server returned an error status; see `response`. Also an `httpx.HTTPStatusError` if httpx is loaded."""

    request: Any
    response: Any


class ConnectError(Unavailable):
    """The server cannot be reached. Also an `httpx.ConnectError` if httpx is loaded."""

    request: Any


class ConnectTimeout(Unavailable):
    """Connecting timed out. Also an `httpx.ConnectTimeout` if httpx is loaded."""

    request: Any


class ReadError(Unavailable):
    """The connection was lost. Also an `httpx.ReadError` if httpx is loaded."""

    request: Any


class ReadTimeout(Timeout):
    """The response timed out. Also an `httpx.ReadTimeout` if httpx is loaded."""

    request: Any


class InvalidURL(InvalidInput):
    """The URL is invalid. Also an `httpx.InvalidURL` if httpx is loaded."""


Raised = TypeVar("Raised", bound=Exception)


@functools.cache
def _joined(kind: Any, real: Any) -> Any:
    # Only this package's initializer runs: httpx's classes take other arguments.
    return type(kind.__name__, (kind, real), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _class_of(kind: type[Raised]) -> type[Raised]:
    real = getattr(sys.modules.get("httpx"), kind.__name__, None)
    joined: Any = _joined
    return kind if real is None else joined(kind, real)


def _created(kind: type[Raised], message: str) -> Raised:
    error = _class_of(kind).__new__(_class_of(kind), message)
    Exception.__init__(error, message)
    return error


def invalid_url(message: str) -> InvalidURL:
    """Returns the exception of an invalid URL."""
    return _created(InvalidURL, message)


def of_native(error: PenstockError, request: Request) -> Exception:
    """Returns the exception for an error of the native client."""
    text = str(error)
    if isinstance(error, Timeout):
        raised: Any = _created(ReadTimeout, text)
    elif isinstance(error, Unavailable) and text.startswith("cannot connect"):
        raised = _created(ConnectTimeout if text.endswith("it does not answer") else ConnectError, text)
    elif isinstance(error, Unavailable):
        raised = _created(ReadError, text)
    else:
        return error
    raised.request = _real_request(request)
    return raised  # type: ignore[no-any-return]


def status_error(response: Response) -> HTTPStatusError:
    """Returns the exception of an error status, with the server's message if that is in JSON."""
    message: Any = ""
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        try:
            message = response.json()
        except ValueError:
            message = response.text
        if isinstance(message, dict) and "error" in message:
            message = message["error"]
    status = f"{response.status_code} {response.reason_phrase}"
    error = _created(HTTPStatusError, f"{message}, '{status}' for url '{response.url}'")
    error.request = _real_request(response.request)
    error.response = _real_response(response, error.request)
    return error


def _real_request(request: Request) -> Any:
    httpx = sys.modules.get("httpx")
    return request if httpx is None else httpx.Request(request.method, request.url, headers=request.headers)


def _real_response(response: Response, request: Any) -> Any:
    httpx = sys.modules.get("httpx")
    if httpx is None:
        return response
    # The body is already decoded.
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx.Response(response.status_code, headers=headers, content=response.content, request=request)
