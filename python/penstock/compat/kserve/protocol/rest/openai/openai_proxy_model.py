"""`OpenAIProxyModel`: forwards requests to another server with OpenAI's routes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol.rest.openai._signatures import hook
from penstock.compat.kserve.protocol.rest.openai._upstream import Clients, with_upstream_errors
from penstock.compat.kserve.protocol.rest.openai.openai_model import AsyncMappingIterator, OpenAIGenerativeModel
from penstock.compat.kserve.protocol.rest.openai.types import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CompletionChunk,
)
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields

__all__ = ["CHAT_COMPLETIONS_ENDPOINT", "COMPLETIONS_ENDPOINT", "OpenAIProxyModel"]

COMPLETIONS_ENDPOINT = "/v1/completions"
CHAT_COMPLETIONS_ENDPOINT = "/v1/chat/completions"


class OpenAIProxyModel(OpenAIGenerativeModel):
    """Forwards requests to another server; a script may change requests and responses.

    The `preprocess_*` methods change requests, the `postprocess_*` methods responses, in place. They may be async, and
    may take the request alone, as in KServe 0.13.

    Args:
        name: The model's name on this server.
        predictor_url: The other server: scheme, host, port, and the path before `/v1`.
        http_client: An `httpx.AsyncClient`; by default one with timeouts of 5 s to connect and 30 s to read.
        skip_upstream_validation: Whether to use the other server's responses without validation.
        health_endpoint: The path of the readiness check; None for always ready.
    """

    def __init__(
        self,
        name: str,
        predictor_url: str,
        http_client: Any = None,
        skip_upstream_validation: bool = False,
        health_endpoint: str | None = "/health",
    ) -> None:
        super().__init__(name)
        self.predictor_url = predictor_url
        self.skip_upstream_validation = skip_upstream_validation
        self._clients = Clients(http_client)
        base = predictor_url.rstrip("/")
        self._completions_endpoint = f"{base}{COMPLETIONS_ENDPOINT}"
        self._chat_completions_endpoint = f"{base}{CHAT_COMPLETIONS_ENDPOINT}"
        self._health_endpoint = f"{base}{health_endpoint}" if health_endpoint else None

    def preprocess_completion_request(self, request: Any, raw_request: Any = None) -> Any:
        """Changes a completion's request. To be overridden."""

    def postprocess_completion(self, completion: Any, request: Any, raw_request: Any = None) -> Any:
        """Changes a completion that is not streamed. To be overridden."""

    def postprocess_completion_chunk(self, completion: Any, request: Any, raw_request: Any = None) -> Any:
        """Changes each chunk of a streamed completion. To be overridden."""

    def preprocess_chat_completion_request(self, request: Any, raw_request: Any = None) -> Any:
        """Changes a chat's request. To be overridden."""

    def postprocess_chat_completion(self, chat_completion: Any, request: Any, raw_request: Any = None) -> Any:
        """Changes a chat's response that is not streamed. To be overridden."""

    def postprocess_chat_completion_chunk(
        self, chat_completion_chunk: Any, request: Any, raw_request: Any = None
    ) -> Any:
        """Changes each chunk of a chat's streamed response. To be overridden."""

    @with_upstream_errors
    async def create_completion(
        self, request: Any, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the other server's completion, after the script's hooks."""
        await hook(self.preprocess_completion_request, request, raw_request=raw_request)
        if request.stream:
            after = self.postprocess_completion_chunk
            built = self._build_request(self._completions_endpoint, request, raw_request, context)
            chunks = await self._stream(built, CompletionChunk)
            return _changed(chunks, after, request, raw_request)
        completion = await self.generate_completion(request, raw_request, context)
        await hook(self.postprocess_completion, completion, request, raw_request=raw_request)
        return completion

    async def generate_completion(
        self, request: Any, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the other server's completion."""
        built = self._build_request(self._completions_endpoint, request, raw_request, context)
        return await self._once(built, Completion)

    @with_upstream_errors
    async def create_chat_completion(
        self, request: Any, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the other server's chat completion, after the script's hooks."""
        await hook(self.preprocess_chat_completion_request, request, raw_request=raw_request)
        if request.stream:
            after = self.postprocess_chat_completion_chunk
            built = self._build_request(self._chat_completions_endpoint, request, raw_request, context)
            chunks = await self._stream(built, ChatCompletionChunk)
            return _changed(chunks, after, request, raw_request)
        chat_completion = await self.generate_chat_completion(request, raw_request, context)
        await hook(self.postprocess_chat_completion, chat_completion, request, raw_request=raw_request)
        return chat_completion

    async def generate_chat_completion(
        self, request: Any, raw_request: Any = None, context: dict[str, Any] | None = None
    ) -> Any:
        """Returns the other server's chat completion."""
        built = self._build_request(self._chat_completions_endpoint, request, raw_request, context)
        return await self._once(built, ChatCompletion)

    async def healthy(self) -> bool:
        """Returns whether the other server is healthy."""
        if self._health_endpoint is None:
            return self.ready
        client = self._clients.client()
        try:
            response = await client.send(client.build_request("GET", self._health_endpoint))
        except Exception as raised:
            logger.warning("The readiness check of the predictor of model %s failed: %s", self.name, raised)
            return False
        return bool(response.status_code == 200)

    async def close_clients(self) -> None:
        """Closes the client of the running event loop; the script's own client stays open."""
        await self._clients.close()

    def _build_request(self, endpoint: str, request: Any, raw_request: Any, context: Any) -> Any:
        headers = {"content-type": "application/json"}
        for source in (getattr(request, "context", None), context, raw_request):
            if source and "upstream_headers" in source:
                headers = {**dict(source["upstream_headers"]), **headers}
        # Without members that the client did not send.
        content = request.model_dump_json(exclude_unset=True, exclude_none=True)
        return self._clients.client().build_request("POST", endpoint, content=content, headers=headers)

    async def _once(self, built: Any, kind: type[Fields]) -> Any:
        response = await self._clients.client().send(built)
        response.raise_for_status()
        return self._read(kind, response.content)

    async def _stream(self, built: Any, kind: type[Fields]) -> AsyncMappingIterator:
        response = await self._clients.client().send(built, stream=True)
        try:
            response.raise_for_status()
        except Exception:
            # Read while the stream is open: the error's handler needs the body.
            await response.aread()
            raise

        def read(line: str) -> Any:
            data = line.removeprefix("data:").strip()
            if not line.startswith("data:") or data == "[DONE]":
                return None
            return self._read(kind, data)

        return AsyncMappingIterator(response.aiter_lines(), read, close=response.aclose)

    def _read(self, kind: type[Fields], text: str | bytes) -> Any:
        if self.skip_upstream_validation:
            return kind.model_construct(**json.loads(text))
        return kind.model_validate_json(text)


async def _changed(chunks: AsyncMappingIterator, after: Callable[..., Any], request: Any, raw_request: Any) -> Any:
    try:
        async for chunk in chunks:
            await hook(after, chunk, request, raw_request=raw_request)
            yield chunk
    finally:
        await chunks.aclose()
