"""REST transport by httpx, for options that need it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

from penstock.compat.kserve._clients.config import RESTConfig
from penstock.compat.kserve._clients.http_errors import Request, Response

__all__ = ["HttpxHttp"]


class HttpxHttp:
    """Sends requests to any origin, optionally through a proxy."""

    def __init__(self, config: RESTConfig, why: str, proxy: str | None = None) -> None:
        try:
            import httpx
        except ImportError:
            raise ImportError(f"RESTConfig's {why} needs the package httpx: pip install 'penstock[kserve]'") from None
        transport = config.transport
        if transport is None:
            # Created here: httpx's own default has neither retries nor a client certificate.
            transport = httpx.AsyncHTTPTransport(
                verify=_trust(httpx, config), http2=config.http2, retries=config.retries or 0, proxy=proxy
            )
        auth: Any = tuple(config.auth) if isinstance(config.auth, list) else config.auth
        timeout: Any = config.timeout
        self._client = httpx.AsyncClient(transport=transport, timeout=timeout, auth=auth)

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: Any
    ) -> Response:
        """Sends a request; raises httpx's errors."""
        response = await self._client.request(method, url, headers=dict(headers), content=body, timeout=timeout)
        request = Request(method, str(response.url), dict(headers))
        return Response(request, response.status_code, dict(response.headers), response.content)

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()


def _trust(httpx: Any, config: RESTConfig) -> Any:
    """Returns the TLS context; httpx deprecates its own `cert` and paths."""
    if config.cert is None and isinstance(config.verify, (bool, ssl.SSLContext)):
        return config.verify
    if isinstance(config.verify, ssl.SSLContext):
        context = config.verify
    elif isinstance(config.verify, bool):
        context = httpx.create_ssl_context(verify=config.verify)
    else:
        file, folder = (None, config.verify) if os.path.isdir(config.verify) else (config.verify, None)
        context = ssl.create_default_context(cafile=file, capath=folder)
    if config.cert is not None:
        parts = (config.cert,) if isinstance(config.cert, str) else config.cert
        context.load_cert_chain(*parts)
    return context
