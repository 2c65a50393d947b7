"""Asks a service over HTTP, as `requests` would."""

from __future__ import annotations

import json as formats
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, Unavailable
from penstock.integrations.downloads import opened

__all__ = ["Answer", "ask"]


class Answer:
    """What a service has answered, with the names that `requests` has."""

    def __init__(self, url: str, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.url, self.status_code, self.headers, self.content = url, status_code, dict(headers), content

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status_code < 400

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body's JSON."""
        return formats.loads(self.content)

    def raise_for_status(self) -> None:
        """Raises a `PenstockError` if the status is 400 or more."""
        if not self.ok:
            raise PenstockError(f"{self.url} answered with status {self.status_code}: {self.text}")


def ask(
    method: str,
    url: str,
    *,
    json: Any = None,
    data: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
) -> Answer:
    """Sends a request, and waits for the answer whatever its status.

    Raises:
        Unavailable: nobody answers.
    """
    sent = dict(headers or {})
    body = data.encode() if isinstance(data, str) else data
    if json is not None:
        body = formats.dumps(json).encode()
        sent.setdefault("Content-Type", "application/json")
    if params:
        url = f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(params)}"
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise Unavailable(f"{url} is no address of the web")
    request = urllib.request.Request(url, data=body, headers=sent, method=method.upper())  # noqa: S310 - checked
    try:
        with opened(request, timeout) as answer:
            return Answer(url, answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Answer(url, error.code, dict(error.headers.items()), error.read())
    except OSError as error:
        raise Unavailable(f"{url} cannot be reached: {error}") from None
