"""Answers that are posted to whoever wants them."""

from __future__ import annotations

import http.client
import logging
import ssl
import time
from urllib.parse import urlsplit

__all__ = ["post", "post_until_taken"]

SECONDS = 10.0
"""How long a webhook may take."""
TRIES = 4
PAUSE = 1.0

_LOG = logging.getLogger("penstock.modelbit")


def post_until_taken(url: str, body: bytes, batch_id: str, *, ignores_timeout: bool) -> bool:
    """Posts an answer, several times if it is not taken. Whether it was."""
    for turn in range(TRIES):
        if turn:
            time.sleep(PAUSE * 2 ** (turn - 1))
        try:
            status = post(url, body, batch_id)
        except TimeoutError:
            if ignores_timeout:
                return True
            _LOG.warning("webhook of batch %s did not answer within %gs", batch_id, SECONDS)
            continue
        except (OSError, http.client.HTTPException) as error:
            _LOG.warning("webhook of batch %s cannot be asked: %s", batch_id, type(error).__name__)
            continue
        if 200 <= status < 300:
            return True
        _LOG.warning("webhook of batch %s answered %d", batch_id, status)
    _LOG.error("webhook of batch %s was given up", batch_id)
    return False


def post(url: str, body: bytes, batch_id: str) -> int:
    """Posts an answer once, and follows nowhere. Gives the status.

    Raises:
        OSError: it is not reached; a `TimeoutError` if it is slow.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=SECONDS, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=SECONDS)
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", "x-mb-batch-id": batch_id})
        return connection.getresponse().status
    finally:
        connection.close()
