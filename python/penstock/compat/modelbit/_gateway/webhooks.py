"""Delivery of responses to webhooks."""

from __future__ import annotations

import http.client
import logging
import ssl
import time
from urllib.parse import urlsplit

__all__ = ["post", "post_with_retries"]

SECONDS = 10.0
"""Time limit of one attempt."""
TRIES = 4
PAUSE = 1.0
"""Seconds before the second attempt; doubled for each further one."""

_LOG = logging.getLogger("penstock.modelbit")


def post_with_retries(url: str, body: bytes, batch_id: str, *, ignores_timeout: bool) -> bool:
    """Posts a response, up to `TRIES` times. Returns whether it was delivered."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            status = post(url, body, batch_id)
        except TimeoutError:
            if ignores_timeout:
                return True
            _LOG.warning("webhook of batch %s did not respond within %gs", batch_id, SECONDS)
            continue
        except (OSError, http.client.HTTPException) as error:
            _LOG.warning("webhook of batch %s: request failed: %s", batch_id, type(error).__name__)
            continue
        if 200 <= status < 300:
            return True
        _LOG.warning("webhook of batch %s responded with status %d", batch_id, status)
    _LOG.error("webhook of batch %s was given up after %d attempts", batch_id, TRIES)
    return False


def post(url: str, body: bytes, batch_id: str) -> int:
    """Posts a response once, without following redirects. Returns the status.

    Raises:
        OSError: the connection failed; `TimeoutError` if the time limit was exceeded.
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
