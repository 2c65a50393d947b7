"""Files of HTTP servers."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.compat.kserve.storage._archives import is_archive, unpack
from penstock.compat.kserve.storage._patterns import Patterns
from penstock.compat.kserve.storage._settings import MOST_BYTES
from penstock.integrations.archives import Bounds, checked, staged, unpack_file
from penstock.integrations.downloads import Counted, check_whole, expect, opened, saved

__all__ = ["download"]

_TIMEOUT = 30.0
_REFUSALS = {
    401: "HTTP authentication failed for '{}'. Verify credentials.",
    403: "HTTP access denied for '{}'. Verify permissions.",
    404: "HTTP resource not found at '{}'.",
}


def download(uri: str, folder: Path, patterns: Patterns) -> None:
    """Downloads a file, and unpacks it if its name is an archive's.

    The environment variable `HOST-headers` has headers for a host, as a JSON object.

    Raises:
        RuntimeError: the URI has no file name, or the download failed.
    """
    del patterns
    parts = urlsplit(uri)
    display_uri = parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]).geturl()
    name = unquote(parts.path.rpartition("/")[2])
    if not is_archive(name) and is_archive(parts.query):
        # Some servers name the file in the query.
        name = unquote(parts.query.rpartition("/")[2].rpartition("=")[2])
    if not name:
        raise RuntimeError(f"No filename contained in URI: {display_uri}")
    path = checked(name)
    with staged(folder) as staging, _opened(uri, display_uri, parts.hostname or "") as response:
        _refuse_pages(response, display_uri)
        expect(getattr(response, "length", None))
        target, bounds = staging / path.name, Bounds(most=MOST_BYTES, what="the source")
        if target.suffix == ".gz" and not is_archive(target.name):
            unpack_file(Counted(response, bounds.content), target.with_suffix(""))
            check_whole(response)
            return
        saved(response, target, bounds)
        if is_archive(target.name):
            unpack(target, staging)


def _opened(uri: str, display_uri: str, host: str) -> Any:
    try:
        headers = json.loads(os.environ.get(f"{host}-headers") or "{}")
    except ValueError as error:
        raise RuntimeError(f"the environment variable {host}-headers is not JSON: {error}") from None
    request = urllib.request.Request(uri, headers=headers)  # noqa: S310 - http or https only
    try:
        return opened(request, _TIMEOUT)
    except urllib.error.HTTPError as error:
        text = _REFUSALS.get(error.code, f"HTTP request to '{{}}' failed with status code {error.code}.")
        raise RuntimeError(text.format(display_uri)) from None
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeError(f"Failed to connect to HTTP endpoint '{host}'. ({error})") from None


def _refuse_pages(response: Any, display_uri: str) -> None:
    """Refuses HTML: a login or error page with status 200 is not a model."""
    if response.headers.get_content_type() == "text/html":
        raise RuntimeError(f"URI: {display_uri} answered with a page ('Content-Type': 'text/html'), not with a file")
