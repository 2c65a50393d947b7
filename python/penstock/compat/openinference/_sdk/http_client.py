"""HTTP requests to a service, with the interface of the package `requests`."""

from __future__ import annotations

import json as json_format
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, Unavailable
from penstock.integrations.downloads import opened

__all__ = ["HttpResponse", "send_request"]


class HttpResponse:
    """Response of a service, with the attribute names of `requests`."""

    def __init__(self, url: str, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.url, self.status_code, self.headers, self.content = url, status_code, dict(headers), content

    @property
    def ok(self) -> bool:
        """True if the status is below 400."""
        return self.status_code < 400

    @property
    def text(self) -> str:
        """Body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Returns the parsed JSON body."""
        return json_format.loads(self.content)

    def raise_for_status(self) -> None:
        """Raises a `PenstockError` if the status is 400 or more."""
        if not self.ok:
            raise PenstockError(f"{self.url} returned status {self.status_code}: {self.text}")


def send_request(
    method: str,
    url: str,
    *,
    json: Any = None,
    data: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
) -> HttpResponse:
    """Sends a request, and returns the response for any status.

    Raises:
        Unavailable: the connection fails.
    """
    request_headers = dict(headers or {})
    body = data.encode() if isinstance(data, str) else data
    if json is not None:
        body = json_format.dumps(json).encode()
        request_headers.setdefault("Content-Type", "application/json")
    if params:
        url = f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(params)}"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise Unavailable(f"{url} is not an HTTP address")
    request = urllib.request.Request(url, data=body, headers=request_headers, method=method.upper())  # noqa: S310 - checked
    try:
        with opened(request, timeout) as response:
            return HttpResponse(url, response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        return HttpResponse(url, error.code, dict(error.headers.items()), error.read())
    except OSError as error:
        raise Unavailable(f"{url} cannot be reached: {error}") from None
