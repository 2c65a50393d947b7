"""Posts requests of `get_inference`, and asks again where that can help and cannot harm."""

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
_AGAIN = (429, 503)


class Poster:
    """Posts to one URL, from any thread; each has a connection of its own.

    Args:
        url: Where.
        key: The API key, if there is one.
        seconds: How long to wait for an answer; None for as long as it takes.
    """

    def __init__(self, url: str, key: str | None, seconds: float | None) -> None:
        self._url, self._seconds = url, seconds
        self._parts = urlsplit(url)
        self._headers = {"Content-Type": "application/json", **({"Authorization": key} if key else {})}
        self._mine = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def post(self, body: bytes) -> dict[str, Any]:
        """The answer to a request.

        It is sent again after 429, 503, and where no connection was made: nothing was computed then.

        Raises:
            UserFacingError: the server says what went wrong, or cannot be reached.
        """
        for turn in range(TRIES):
            status, headers, text = self._sent(body, is_last=turn == TRIES - 1)
            if status not in _AGAIN or turn == TRIES - 1:
                break
            time.sleep(_pause(headers.get("retry-after"), turn))
        return _answer(status, text, self._url)

    def close(self) -> None:
        """Closes all connections."""
        for one in self._opened:
            one.close()

    def _sent(self, body: bytes, *, is_last: bool) -> tuple[int, dict[str, str], bytes]:
        """What came back; 503 where no connection could be made."""
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
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except TimeoutError:
            connection.close()
            raise UserFacingError(f"'{self._url}' did not answer within {self._seconds:g} seconds.") from None
        except (OSError, http.client.HTTPException) as error:
            # It may be computed already: whoever calls decides whether to ask again.
            connection.close()
            raise UserFacingError(f"'{self._url}' ended the connection ({type(error).__name__}).") from None

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if found is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                found = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
            else:
                found = http.client.HTTPConnection(host, port, timeout=self._seconds)
            self._mine.connection = found
            self._opened.append(found)
        return found


def _answer(status: int, text: bytes, url: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UserFacingError(f"'{url}' answered {status} without JSON.")
    if "error" in answer:
        raise UserFacingError(str(answer["error"]))
    return answer


def _pause(wished: str | None, turn: int) -> float:
    if wished is not None and wished.isascii() and wished.isdigit():
        return min(float(wished), 60.0)
    return PAUSE * float(1 << turn)
