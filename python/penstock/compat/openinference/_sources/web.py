"""Code on web servers."""

from __future__ import annotations

import http.client
import urllib.error
from pathlib import Path
from urllib.parse import urlsplit

from penstock.integrations.archives import Bounds
from penstock.integrations.downloads import opened, saved

__all__ = ["bounds", "download", "redact_url"]

_TIMEOUT = 30.0
_MAX_BYTES = 4 << 30


def redact_url(url: str) -> str:
    """Returns a URL without query, fragment and credentials, which may be secret."""
    parts = urlsplit(url)
    return parts._replace(query="", fragment="", netloc=parts.netloc.rpartition("@")[2]).geturl()


def download(url: str, path: Path) -> None:
    """Downloads a file.

    Raises:
        RuntimeError: the download fails, or the file is too large.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise RuntimeError(f"{redact_url(url)} is not an HTTP address")
    try:
        with opened(url, _TIMEOUT) as response:
            saved(response, path, bounds())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{redact_url(url)} returned status {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeError(f"{redact_url(url)} cannot be fetched: {error}") from None


def bounds() -> Bounds:
    """Returns the size limit of a source: PENSTOCK_STORAGE_MAX_BYTES, by default 4 GiB."""
    return Bounds(most=_MAX_BYTES, what="the source")
