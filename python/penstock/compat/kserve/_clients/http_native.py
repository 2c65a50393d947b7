"""REST transport by Penstock's own client, one per origin."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import penstock
from penstock.compat.kserve._clients.config import RESTConfig
from penstock.compat.kserve._clients.defaults import Timeout, limits
from penstock.compat.kserve._clients.http_errors import Request, Response, of_native
from penstock.errors import InvalidInput, PenstockError

__all__ = ["NativeHttp"]

_NO_LIMIT = 1 << 40
_FRAMING = frozenset(["connection", "content-length", "te", "transfer-encoding"])


class NativeHttp:
    """Sends requests to any origin."""

    def __init__(self, config: RESTConfig) -> None:
        self._options = _options(config)
        self._clients: dict[str, penstock.AsyncClient] = {}
        self._closed = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: Timeout
    ) -> Response:
        """Sends a request.

        Raises:
            ConnectError: the server cannot be reached; see `http_errors` for the others.
        """
        origin, path = _split(url)
        # Without framing headers: scripts often pass on those of another request.
        sent = {name: value for name, value in headers.items() if name.lower() not in _FRAMING}
        request = Request(method, url, sent)
        try:
            response = await self._client(origin).request(
                method, path, body or b"", headers=sent, timeout=limits(timeout).whole
            )
        except InvalidInput as error:
            raise ValueError(str(error)) from None
        except PenstockError as error:
            raise of_native(error, request) from None
        return Response(request, response.status, response.headers, response.body)

    async def close(self) -> None:
        """Closes all connections; later requests fail."""
        self._closed = True
        for client in self._clients.values():
            await client.close()

    def _client(self, origin: str) -> penstock.AsyncClient:
        if self._closed:
            raise RuntimeError("Cannot send a request, as the client has been closed.")
        client = self._clients.get(origin)
        if client is None:
            client = self._clients[origin] = penstock.AsyncClient(origin, **self._options)
        return client


@functools.lru_cache(maxsize=256)
def _split(url: str) -> tuple[str, str]:
    """Returns a URL's origin, and its path with query."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc}", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _options(config: RESTConfig) -> dict[str, Any]:
    options: dict[str, Any] = {
        "retries": max(0, config.retries or 0),
        "connect_timeout": limits(config.timeout).connect,
        "max_answer_bytes": _NO_LIMIT,
    }
    if isinstance(config.cert, (tuple, list)):
        options["certificate"], options["key"] = config.cert[0], config.cert[1]
    elif config.cert is not None:
        options["certificate"] = options["key"] = config.cert
    if config.verify is not True:
        options["ca_file"] = config.verify
    return options
