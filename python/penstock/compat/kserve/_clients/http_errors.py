"""What the REST client raises: exceptions of its own, which are httpx's too once the script has loaded httpx.

Who catches `httpx.HTTPStatusError` has imported httpx by then, and who has no httpx catches the classes here.
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
    """What was asked, where there is no httpx to say it with."""

    def __init__(self, method: str, url: str, headers: Mapping[str, str]) -> None:
        self.method = method
        self.url = url
        self.headers = dict(headers)


class Response:
    """What was answered, with the names that httpx has."""

    def __init__(self, request: Request, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.request = request
        self.url = request.url
        self.status_code = status_code
        self.headers = dict(headers)
        self.content = content

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status_code < 300

    @property
    def reason_phrase(self) -> str:
        """The status in words."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


class HTTPStatusError(Exception):
    """The server refused: `response` is its answer. Also `httpx.HTTPStatusError` where httpx is loaded."""

    request: Any
    response: Any


class ConnectError(Unavailable):
    """The server cannot be reached. Also `httpx.ConnectError` where httpx is loaded."""

    request: Any


class ConnectTimeout(Unavailable):
    """The server did not take the connection in time. Also `httpx.ConnectTimeout` where httpx is loaded."""

    request: Any


class ReadError(Unavailable):
    """The connection was lost. Also `httpx.ReadError` where httpx is loaded."""

    request: Any


class ReadTimeout(Timeout):
    """There was no answer in time. Also `httpx.ReadTimeout` where httpx is loaded."""

    request: Any


class InvalidURL(InvalidInput):
    """The URL cannot be asked. Also `httpx.InvalidURL` where httpx is loaded."""


Raised = TypeVar("Raised", bound=Exception)


@functools.cache
def _joined(kind: Any, real: Any) -> Any:
    # Ours alone initialises: httpx's own take their arguments in another way.
    return type(kind.__name__, (kind, real), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _class_of(kind: type[Raised]) -> type[Raised]:
    real = getattr(sys.modules.get("httpx"), kind.__name__, None)
    joined: Any = _joined
    return kind if real is None else joined(kind, real)


def _made(kind: type[Raised], message: str) -> Raised:
    error = _class_of(kind).__new__(_class_of(kind), message)
    Exception.__init__(error, message)
    return error


def invalid_url(message: str) -> InvalidURL:
    """That a URL cannot be asked."""
    return _made(InvalidURL, message)


def of_native(error: PenstockError, request: Request) -> Exception:
    """What is raised instead of an error of the native client's."""
    text = str(error)
    if isinstance(error, Timeout):
        raised: Any = _made(ReadTimeout, text)
    elif isinstance(error, Unavailable) and text.startswith("cannot connect"):
        raised = _made(ConnectTimeout if text.endswith("it does not answer") else ConnectError, text)
    elif isinstance(error, Unavailable):
        raised = _made(ReadError, text)
    else:
        return error
    raised.request = _real_request(request)
    return raised  # type: ignore[no-any-return]


def status_error(response: Response) -> HTTPStatusError:
    """That the server refused, in its own words where it says them in JSON."""
    said: Any = ""
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
        try:
            said = response.json()
        except ValueError:
            said = response.text
        if isinstance(said, dict) and "error" in said:
            said = said["error"]
    status = f"{response.status_code} {response.reason_phrase}"
    error = _made(HTTPStatusError, f"{said}, '{status}' for url '{response.url}'")
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
    # The body is decoded already.
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx.Response(response.status_code, headers=headers, content=response.content, request=request)
