"""URLs, credentials and proxies of a REST client."""

from __future__ import annotations

import base64
import functools
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from penstock.compat.kserve._clients.http_errors import invalid_url

__all__ = ["Proxies", "basic", "joined", "without_user"]

_IN_PATH = "/:@!$&'()*+,;=~%"


def joined(base_url: Any, path: str) -> str:
    """Returns the URL of a path below a base, which may be text or httpx's `URL`.

    Raises:
        InvalidURL: the base is not an absolute http or https URL.
    """
    return _joined(str(base_url), path)


@functools.lru_cache(maxsize=256)
def _joined(base_url: str, path: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme.lower() not in ("http", "https"):
        raise invalid_url("Base url should have 'http://' or 'https://' protocol")
    if not parts.netloc:
        raise invalid_url("Base url should not be a relative url")
    whole = f"{parts.path}{path}" if parts.path.endswith("/") else f"{parts.path}/{path}"
    return urlunsplit((parts.scheme, parts.netloc, quote(whole, safe=_IN_PATH), "", ""))


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """Returns the URL without user name and password, and both."""
    if "@" not in url:
        return url, None
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(name), unquote(password))


def basic(user: Any, password: Any) -> str:
    """Returns the authorization header of a name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Proxies:
    """Proxies of the environment (`HTTP_PROXY`, `NO_PROXY` and so on), read once."""

    def __init__(self) -> None:
        self._proxies = urllib.request.getproxies_environment()
        self._known: dict[str, str | None] = {}

    def of(self, url: str) -> str | None:
        """Returns the proxy for a URL, or None."""
        if not self._proxies:
            return None
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._known:
            proxy = self._proxies.get(parts.scheme) or self._proxies.get("all")
            self._known[origin] = None if not proxy or urllib.request.proxy_bypass(parts.netloc) else proxy
        return self._known[origin]
