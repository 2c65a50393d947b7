"""HTTP requests of `get_inference`, with retries where nothing was computed."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["Poster"]

TRIES = 6
PAUSE = 0.5
"""Seconds before the first retry; doubled for each further one."""
_RETRIED = (429, 503)


class Poster:
    """Posts to one URL; each thread has its own connection.

    Args:
        url: The URL.
        key: The API key; None to send none.
        seconds: Time limit of a response; None for no limit.
    """

    def __init__(self, url: str, key: str | None, seconds: float | None) -> None:
        self._url, self._seconds = url, seconds
        self._parts = urlsplit(url)
        self._headers = {"Content-Type": "application/json", **({"Authorization": key} if key else {})}
        self._local = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def post(self, body: bytes) -> dict[str, Any]:
        """Posts a body and returns the response's JSON.

        Retries after 429, 503 and a failed connection: in these cases nothing was computed.

        Raises:
            UserFacingError: the server responded with an error, or cannot be reached.
        """
        for attempt in range(TRIES):
            status, headers, text = self._send(body, is_last=attempt == TRIES - 1)
            if status not in _RETRIED or attempt == TRIES - 1:
                break
            time.sleep(_retry_delay(headers.get("retry-after"), attempt))
        return _parse_response(status, text, self._url)

    def close(self) -> None:
        """Closes all connections."""
        for one in self._opened:
            one.close()

    def _send(self, body: bytes, *, is_last: bool) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body of the response; 503 if the connection failed."""
        connection = self._connection()
        if connection.sock is None:
            try:
                connection.connect()
            except OSError:
                if is_last:
                    raise UserFacingError(f"Unable to connect to '{self._url}'.") from None
                return 503, {}, b""
        try:
            connection.request("POST", self._parts.path, body, self._headers)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        except TimeoutError:
            connection.close()
            raise UserFacingError(f"'{self._url}' did not answer within {self._seconds:g} seconds.") from None
        except (OSError, http.client.HTTPException) as error:
            # The request may have been computed, so retrying is the caller's decision.
            connection.close()
            raise UserFacingError(f"'{self._url}' ended the connection ({type(error).__name__}).") from None

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                found = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
            else:
                found = http.client.HTTPConnection(host, port, timeout=self._seconds)
            self._local.connection = found
            self._opened.append(found)
        return found


def _parse_response(status: int, text: bytes, url: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise UserFacingError(f"'{url}' answered {status} without JSON.")
    if "error" in parsed:
        raise UserFacingError(str(parsed["error"]))
    return parsed


def _retry_delay(retry_after: str | None, attempt: int) -> float:
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after), 60.0)
    return PAUSE * float(1 << attempt)
