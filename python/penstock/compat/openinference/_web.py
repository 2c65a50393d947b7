"""Code on web servers."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

__all__ = ["copied", "download", "shown"]

_TIMEOUT = 30.0
_PIECE = 1 << 20
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
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, open(place, "wb") as file:  # noqa: S310 - checked
            copied(answer, file)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{shown(url)} is answered with status {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeError(f"{shown(url)} cannot be got: {error}") from None


def copied(source: IO[bytes], target: IO[bytes]) -> None:
    """Copies all of a file, up to PENSTOCK_STORAGE_MAX_BYTES, by default 4 GiB.

    Raises:
        RuntimeError: there is more.
    """
    said = os.environ.get("PENSTOCK_STORAGE_MAX_BYTES", "")
    left = most = int(said) if said.isdecimal() else _MOST
    while piece := source.read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise RuntimeError(f"the source has more than {most} bytes: PENSTOCK_STORAGE_MAX_BYTES allows more")
        target.write(piece)
