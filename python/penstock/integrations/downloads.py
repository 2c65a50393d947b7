"""Downloads: over HTTP with bounded redirects, headers for one origin, and a limit of size; and their progress."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from penstock.integrations._packed import Counted
from penstock.integrations._progress import expect, is_shown, shown
from penstock.integrations.archives import Bounds

__all__ = ["Counted", "Redirects", "check_whole", "expect", "is_shown", "opened", "saved", "shown"]

_PORTS = {"http": 80, "https": 443}


class Redirects(urllib.request.HTTPRedirectHandler):
    """Redirect handler: follows at most ten redirects, to http and https only, and never from https to http.

    Headers of the request are not sent to another scheme, host or port.
    """

    max_redirections = 10

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:  # noqa: PLR0917 - signature of the base
        """The request for a redirect.

        Raises:
            URLError: the redirect is not followed.
        """
        redirected = super().redirect_request(req, fp, code, msg, headers, newurl)
        if redirected is None:
            return None
        try:
            before, after = _origin(req.full_url), _origin(redirected.full_url)
        except ValueError as error:
            raise urllib.error.URLError(f"a redirect to an invalid address: {error}") from None
        if after[0] not in _PORTS or (before[0] == "https" and after[0] != "https"):
            raise urllib.error.URLError(f"a redirect from {before[0]} to {after[0]} is not followed")
        if after != before:
            redirected.headers.clear()
        return redirected


def opened(request: urllib.request.Request | str, timeout: float | None, *handlers: Any) -> Any:
    """Sends a request to a web server, whose address the caller has checked. Returns the response, to be closed.

    Raises:
        OSError: no response; or `HTTPError` for a status of 400 or more.
    """
    opener = urllib.request.build_opener(Redirects, *handlers)
    return opener.open(request) if timeout is None else opener.open(request, timeout=timeout)


def saved(response: Any, place: Path, bounds: Bounds) -> None:
    """Writes the body of a response to a file. On failure the file is removed.

    Raises:
        RuntimeError: the body is too large, or ends early.
    """
    try:
        with open(place, "wb") as file:
            bounds.copy(response, file)
        check_whole(response)
    except BaseException:
        place.unlink(missing_ok=True)
        raise


def check_whole(response: IO[bytes]) -> None:
    """Checks that a response is complete.

    Raises:
        RuntimeError: it has fewer bytes than announced.
    """
    if missing := getattr(response, "length", None):
        raise RuntimeError(f"the response ended {missing} bytes early")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
