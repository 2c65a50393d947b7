"""What handlers give, as bodies and server-sent events."""

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


def is_stream(answer: Any) -> bool:
    """Whether a handler answers piece by piece."""
    return hasattr(answer, "__aiter__")


def is_error(answer: Any) -> bool:
    """Whether an answer is an error in OpenAI's form."""
    return hasattr(getattr(answer, "error", None), "code")


def body_of(answer: Any) -> bytes:
    """The JSON of an answer: an object of ours, of pydantic, or what JSON has itself."""
    if hasattr(answer, "model_dump_json"):
        text: str = answer.model_dump_json()
        return text.encode()
    return _json.dumps(answer)


async def events(pieces: Any) -> AsyncGenerator[bytes, None]:
    """The pieces as server-sent events; text as it is. An error after the first of them is an event too."""
    done = False
    sent = False
    async with aclosing(_closable(pieces)) as items:
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
            yield b"data: " + body_of(_told(raised)) + b"\n\n"
            done = True
    if done:
        yield DONE


def _told(raised: Exception) -> Any:
    if isinstance(raised, OpenAIError):
        return response_of(raised)
    text = f"{type(raised).__name__} : {raised}"
    return create_error_response(text, "InternalServerError", status_code=HTTPStatus.INTERNAL_SERVER_ERROR)


class _closable:
    """An async iterator that can be closed, whatever it is."""

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces

    def __aiter__(self) -> Any:
        return self._pieces.__aiter__()

    async def aclose(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()
