"""What can be asked by OpenAI's routes: for each its path, and which types and handlers belong to it."""

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

__all__ = ["KINDS", "Kind"]


class Kind(NamedTuple):
    """One of OpenAI's routes."""

    path: str
    name: str
    method: str
    new: type[Fields]
    old: type[Fields] | None
    """What KServe 0.13 passes as `params`; None where it has no such route."""

    def asked(self, said: Any, context: dict[str, Any], *, old: bool) -> Any:
        """A body as a handler takes it, of the version of KServe before 0.14 or of a later one."""
        if not old or self.old is None:
            found: Any = self.new.model_validate(said)
            if self.old is not None:
                found.context = context
            return found
        request_id = context["headers"].get("x-request-id")
        return self.new(params=self.old.model_validate(said), request_id=request_id, context=context)

    def problems(self, said: Any) -> list[Problem]:
        """What is wrong with a body that names no model."""
        found: list[Problem] = []
        if not isinstance(said, dict):
            return [Problem("model_attributes_type", (), "Input should be a valid dictionary", said)]
        if said.get("model") is None:
            found.append(Problem("missing", ("model",), "Field required", said))
        try:
            self.new.model_validate(said)
        except ValidationError as error:
            found += [one for one in error.problems if one.where != ("model",)]
        return found


KINDS = {
    one.path: one
    for one in (
        Kind("completions", "Completions", "create_completion", CompletionRequest, CreateCompletionRequest),
        Kind(
            "chat/completions",
            "Chat Completion",
            "create_chat_completion",
            ChatCompletionRequest,
            CreateChatCompletionRequest,
        ),
        Kind("embeddings", "Embeddings", "create_embedding", EmbeddingRequest, None),
        Kind("rerank", "Rerank", "create_rerank", RerankRequest, None),
    )
}
"""By path."""
