"""Clients of another OpenAI server: httpx, or the script's own client."""

from __future__ import annotations

import asyncio
import functools
import importlib
import weakref
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol.rest.openai.errors import OpenAIError, create_error_response
from penstock.compat.kserve.protocol.rest.openai.types import ErrorResponse, ValidationError

__all__ = ["Clients", "with_upstream_errors"]

_FAILURES = (
    # In this order: each of httpx's later classes is a base of one before it.
    ("TimeoutException", "Timed out when communicating with upstream", "GatewayTimeout", HTTPStatus.GATEWAY_TIMEOUT),
    ("NetworkError", "Failed to communicate with upstream", "ServiceUnavailableError", HTTPStatus.SERVICE_UNAVAILABLE),
    ("HTTPError", "Upstream request failed", "InternalServerError", HTTPStatus.INTERNAL_SERVER_ERROR),
)


class Clients:
    """The client: the script's own, or one per event loop, since connections belong to a loop."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self._httpx: Any = None if given is not None else _httpx()
        self._of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    def client(self) -> Any:
        """Returns the running event loop's client."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            timeout = self._httpx.Timeout(timeout=5.0, read=30.0)
            self._of_loops[loop] = self._httpx.AsyncClient(timeout=timeout)
        return self._of_loops[loop]

    async def close(self) -> None:
        """Closes the running event loop's client, unless it is the script's own."""
        client = self._of_loops.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def __reduce__(self) -> Any:
        # A worker has its own event loops and connections.
        return Clients, (self._given,)


def _httpx() -> Any:
    for name in ("httpx", "httpx2"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(
        "OpenAIProxyModel needs the package httpx: pip install 'penstock[kserve]', or pass a client as http_client"
    )


def with_upstream_errors(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a handler: upstream failures become errors in OpenAI's form.

    Exceptions are recognized by class name, so that every version of httpx works.
    """

    @functools.wraps(handler)
    async def wrapper(*arguments: Any, **named: Any) -> Any:
        try:
            return await handler(*arguments, **named)
        except Exception as raised:
            names = {one.__name__ for one in type(raised).__mro__}
            if "HTTPStatusError" in names:
                raise OpenAIError(await _upstream_error(raised)) from raised
            for name, text, kind, status in _FAILURES:
                if name in names:
                    raise OpenAIError(create_error_response(f"{text}: {raised}", kind, status_code=status)) from raised
            raise

    return wrapper


async def _upstream_error(raised: Any) -> ErrorResponse:
    """Returns the upstream's error, if it is one in OpenAI's form."""
    content: bytes = await raised.response.aread()
    try:
        return ErrorResponse.model_validate_json(content)
    except ValidationError:
        logger.warning("Failed to parse error response from upstream: %s", content)
    text = f"Received invalid response from upstream: {content.decode(errors='replace')}"
    return create_error_response(text, "BadGateway", status_code=HTTPStatus.BAD_GATEWAY)
