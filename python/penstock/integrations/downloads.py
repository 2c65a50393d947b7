"""Asks web servers for files: which redirects are followed, with which headers, and how much is taken."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from penstock.integrations._packed import Counted
from penstock.integrations.archives import Bounds

__all__ = ["Counted", "Redirects", "check_whole", "opened", "saved"]

_PORTS = {"http": 80, "https": 443}


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows ten redirects at most, to http and https only, and never from https to http.

    No header of the request goes to another scheme, host or port.
    """

    max_redirections = 10

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:  # noqa: PLR0917 - the base's
        """The request to make instead.

        Raises:
            URLError: it is one that is not followed.
        """
        again = super().redirect_request(req, fp, code, msg, headers, newurl)
        if again is None:
            return None
        try:
            before, after = _origin(req.full_url), _origin(again.full_url)
        except ValueError as error:
            raise urllib.error.URLError(f"a redirect to what is no address: {error}") from None
        if after[0] not in _PORTS or (before[0] == "https" and after[0] != "https"):
            raise urllib.error.URLError(f"a redirect from {before[0]} to {after[0]} is not followed")
        if after != before:
            again.headers.clear()
        return again


def opened(request: urllib.request.Request | str, timeout: float | None, *handlers: Any) -> Any:
    """Sends a request to a web server, whose address is checked already; its answer, to be read and closed.

    Raises:
        OSError: there is no answer, or one of status 400 or more: an `HTTPError`.
    """
    opener = urllib.request.build_opener(Redirects, *handlers)
    return opener.open(request) if timeout is None else opener.open(request, timeout=timeout)


def saved(answer: Any, place: Path, bounds: Bounds) -> None:
    """Writes an answer's body into a file, of which nothing is left where that fails.

    Raises:
        RuntimeError: it is too large, or ends early.
    """
    try:
        with open(place, "wb") as file:
            bounds.copy(answer, file)
        check_whole(answer)
    except BaseException:
        place.unlink(missing_ok=True)
        raise


def check_whole(answer: IO[bytes]) -> None:
    """Looks whether an answer came to its end.

    Raises:
        RuntimeError: it has fewer bytes than it said that it has.
    """
    if missing := getattr(answer, "length", None):
        raise RuntimeError(f"the answer ended {missing} bytes early")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
