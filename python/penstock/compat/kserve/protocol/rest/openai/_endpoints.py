"""OpenAI's endpoints: their paths, handlers and request types."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.compat.kserve.protocol.rest.openai.types import (
    ChatCompletionRequest,
    CompletionRequest,
    CreateChatCompletionRequest,
    CreateCompletionRequest,
    EmbeddingRequest,
    RerankRequest,
    ValidationError,
)
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields
from penstock.compat.kserve.protocol.rest.openai.types._parsing import Problem

__all__ = ["ENDPOINTS", "Endpoint"]


class Endpoint(NamedTuple):
    """An endpoint."""

    path: str
    name: str
    method: str
    new: type[Fields]
    old: type[Fields] | None
    """The type that KServe 0.13 passes as `params`; None for an endpoint that it does not have."""

    def openai_request(self, body: Any, context: dict[str, Any], *, old: bool) -> Any:
        """Returns a handler's request, for a handler of KServe before 0.14 (`old`) or of a later version."""
        if not old or self.old is None:
            found: Any = self.new.model_validate(body)
            if self.old is not None:
                found.context = context
            return found
        request_id = context["headers"].get("x-request-id")
        return self.new(params=self.old.model_validate(body), request_id=request_id, context=context)

    def problems(self, body: Any) -> list[Problem]:
        """Returns the problems of a body that names no model."""
        found: list[Problem] = []
        if not isinstance(body, dict):
            return [Problem("model_attributes_type", (), "Input should be a valid dictionary", body)]
        if body.get("model") is None:
            found.append(Problem("missing", ("model",), "Field required", body))
        try:
            self.new.model_validate(body)
        except ValidationError as error:
            found += [one for one in error.problems if one.where != ("model",)]
        return found


ENDPOINTS = {
    one.path: one
    for one in (
        Endpoint("completions", "Completions", "create_completion", CompletionRequest, CreateCompletionRequest),
        Endpoint(
            "chat/completions",
            "Chat Completion",
            "create_chat_completion",
            ChatCompletionRequest,
            CreateChatCompletionRequest,
        ),
        Endpoint("embeddings", "Embeddings", "create_embedding", EmbeddingRequest, None),
        Endpoint("rerank", "Rerank", "create_rerank", RerankRequest, None),
    )
}
"""Endpoints by path."""
