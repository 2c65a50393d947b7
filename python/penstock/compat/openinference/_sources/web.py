"""Code on web servers."""

from __future__ import annotations

import http.client
import urllib.error
from pathlib import Path
from urllib.parse import urlsplit

from penstock.integrations.archives import Bounds
from penstock.integrations.downloads import opened, saved

__all__ = ["bounds", "download", "shown"]

_TIMEOUT = 30.0
_MOST = 4 << 30


def shown(url: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(url)
    return parts._replace(query="", fragment="", netloc=parts.netloc.rpartition("@")[2]).geturl()


def download(url: str, place: Path) -> None:
    """Gets a file.

    Raises:
        RuntimeError: the server does not give it, or it is too large.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise RuntimeError(f"{shown(url)} is no address of the web")
    try:
        with opened(url, _TIMEOUT) as answer:
            saved(answer, place, bounds())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{shown(url)} is answered with status {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeError(f"{shown(url)} cannot be got: {error}") from None


def bounds() -> Bounds:
    """What a source may have: PENSTOCK_STORAGE_MAX_BYTES, by default 4 GiB."""
    return Bounds(most=_MOST, what="the source")
