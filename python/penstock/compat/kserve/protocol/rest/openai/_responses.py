"""Results of handlers as bodies and server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol import _json
from penstock.compat.kserve.protocol.rest.openai.errors import OpenAIError, create_error_response, response_of

__all__ = ["body_of", "events", "is_error", "is_stream"]

DONE = b"data: [DONE]\n\n"


def is_stream(result: Any) -> bool:
    """Returns whether a result is streamed."""
    return hasattr(result, "__aiter__")


def is_error(result: Any) -> bool:
    """Returns whether a result is an error in OpenAI's form."""
    return hasattr(getattr(result, "error", None), "code")


def body_of(result: Any) -> bytes:
    """Returns a result as JSON: an object of this package, of pydantic, or a plain value."""
    if hasattr(result, "model_dump_json"):
        text: str = result.model_dump_json()
        return text.encode()
    return _json.dumps(result)


async def events(chunks: Any) -> AsyncGenerator[bytes, None]:
    """Yields chunks as server-sent events; text unchanged. An error after the first chunk is an event too."""
    done = False
    sent = False
    async with aclosing(_Closable(chunks)) as items:
        try:
            async for item in items:
                if isinstance(item, str | bytes):
                    yield item.encode() if isinstance(item, str) else item
                else:
                    done = True
                    yield b"data: " + body_of(item) + b"\n\n"
                sent = True
        except Exception as raised:
            if not sent:
                raise
            logger.error("Exception:", exc_info=raised)
            yield b"data: " + body_of(_error_of(raised)) + b"\n\n"
            done = True
    if done:
        yield DONE


def _error_of(raised: Exception) -> Any:
    if isinstance(raised, OpenAIError):
        return response_of(raised)
    text = f"{type(raised).__name__} : {raised}"
    return create_error_response(text, "InternalServerError", status_code=HTTPStatus.INTERNAL_SERVER_ERROR)


class _Closable:
    """An async iterator with an `aclose`, also if the wrapped iterator has none."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def __aiter__(self) -> Any:
        return self._chunks.__aiter__()

    async def aclose(self) -> None:
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()
