"""Models that answer OpenAI's requests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from inspect import isawaitable
from typing import Any

from penstock.compat.kserve.model import BaseKServeModel
from penstock.compat.kserve.protocol.rest.openai.types import (
    ChatCompletionRequest,
    CompletionRequest,
    EmbeddingRequest,
    RerankRequest,
)
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields

__all__ = [
    "AsyncMappingIterator",
    "BaseCompletionRequest",
    "ChatCompletionRequest",
    "ChatPrompt",
    "CompletionRequest",
    "OpenAIEncoderModel",
    "OpenAIGenerativeModel",
    "OpenAIModel",
]

BaseCompletionRequest = CompletionRequest | ChatCompletionRequest
"""What KServe 0.13 passes: `params`, `request_id` and `context`."""


class ChatPrompt(Fields):
    """What messages are as one text, and who is to answer."""

    response_role: str = "assistant"
    prompt: str


class OpenAIModel(BaseKServeModel):
    """A model with OpenAI's routes. It is ready from the beginning.

    It answers those of `create_completion`, `create_chat_completion`, `create_embedding` and `create_rerank` that it
    has; as in KServe 0.13, where this is what a script derives from, they may take the request alone.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True


class OpenAIGenerativeModel(OpenAIModel):
    """A model that makes text.

    Example:
        >>> class Shout(OpenAIGenerativeModel):
        ...     async def create_completion(self, request, raw_request=None, context=None):
        ...         choice = CompletionChoice(index=0, text=request.prompt.upper(), finish_reason="stop")
        ...         return Completion(model=request.model, choices=[choice])
        ...
        ...     async def create_chat_completion(self, request, raw_request=None, context=None): ...
    """

    @abstractmethod
    async def create_completion(
        self, request: CompletionRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Goes on with a prompt.

        Args:
            request: What is asked.
            raw_request: The HTTP request.
            context: Its `headers`, and the `response`, whose status and headers may be set.

        Returns:
            A `Completion`, an `ErrorResponse`; or where `request.stream` is set, an async iterator of chunks, or of
            server-sent events as text, which are sent as they are.
        """

    @abstractmethod
    async def create_chat_completion(
        self, request: ChatCompletionRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Answers a chat. As `create_completion`, with a `ChatCompletion`."""


class OpenAIEncoderModel(OpenAIModel):
    """A model that makes vectors, and puts documents in order."""

    @abstractmethod
    async def create_embedding(
        self, request: EmbeddingRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """The vectors of texts: an `Embedding` or an `ErrorResponse`."""

    @abstractmethod
    async def create_rerank(
        self, request: RerankRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """How well documents fit: a `Rerank` or an `ErrorResponse`."""


class AsyncMappingIterator:
    """What `mapper` makes of each item of an async iterator.

    Args:
        iterator: The items.
        mapper: What is made of each.
        skip_none: Whether an item of which it makes None is left out.
        close: Called, and awaited if need be, at the end and when the iterator fails.
    """

    def __init__(
        self,
        iterator: AsyncIterator[Any],
        mapper: Callable[[Any], Any] = lambda item: item,
        skip_none: bool = True,
        close: Callable[[], Any] | None = None,
    ) -> None:
        self.iterator, self.mapper, self.skip_none, self.close = iterator, mapper, skip_none, close

    def __aiter__(self) -> AsyncMappingIterator:
        return self

    async def __anext__(self) -> Any:
        try:
            while True:
                mapped = self.mapper(await self.iterator.__anext__())
                if mapped is not None or not self.skip_none:
                    return mapped
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Closes what the items come from; a reader that stops early calls it."""
        close, self.close = self.close, None
        if close is not None and isawaitable(closing := close()):
            await closing
        inner = getattr(self.iterator, "aclose", None)
        if inner is not None:
            await inner()
