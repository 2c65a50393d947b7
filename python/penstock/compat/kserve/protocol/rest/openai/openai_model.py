"""Base classes of models with OpenAI's routes."""

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
"""KServe 0.13's requests: `params`, `request_id` and `context`."""


class ChatPrompt(Fields):
    """Messages as one prompt, and the role of the response."""

    response_role: str = "assistant"
    prompt: str


class OpenAIModel(BaseKServeModel):
    """A model with OpenAI's routes, ready from the beginning.

    It serves those of `create_completion`, `create_chat_completion`, `create_embedding` and `create_rerank` that it
    has. For scripts of KServe 0.13, which derive from this class, they may take the request alone.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready = True


class OpenAIGenerativeModel(OpenAIModel):
    """A model that generates text.

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
        """Completes a prompt.

        Args:
            request: The request.
            raw_request: The HTTP request.
            context: The request's `headers`, and the `response`, whose status and headers may be set.

        Returns:
            A `Completion`, an `ErrorResponse`; or where `request.stream` is set, an async iterator of chunks, or of
            server-sent events as text, which are sent unchanged.
        """

    @abstractmethod
    async def create_chat_completion(
        self, request: ChatCompletionRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Completes a chat, as `create_completion` a prompt; returns a `ChatCompletion`."""


class OpenAIEncoderModel(OpenAIModel):
    """A model that computes embeddings and ranks documents."""

    @abstractmethod
    async def create_embedding(
        self, request: EmbeddingRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the embeddings of texts: an `Embedding` or an `ErrorResponse`."""

    @abstractmethod
    async def create_rerank(
        self, request: RerankRequest, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the relevance of documents: a `Rerank` or an `ErrorResponse`."""


class AsyncMappingIterator:
    """The results of `mapper` for the items of an async iterator.

    Args:
        iterator: The items.
        mapper: Called with each item.
        skip_none: Whether to leave out results that are None.
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
        """Closes the source of the items; a reader that stops early has to call it."""
        close, self.close = self.close, None
        if close is not None and isawaitable(closing := close()):
            await closing
        inner = getattr(self.iterator, "aclose", None)
        if inner is not None:
            await inner()
