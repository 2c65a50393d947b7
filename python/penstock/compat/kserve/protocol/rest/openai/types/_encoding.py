"""Embeddings and rankings: requests and responses."""

from __future__ import annotations

from typing import Any, Literal

from penstock.compat.kserve.protocol.rest.openai.types._common import UsageInfo, id_of, now
from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields, default_factory

__all__ = [
    "Embedding",
    "EmbeddingCompletionRequest",
    "EmbeddingRequest",
    "EmbeddingResponseData",
    "Rerank",
    "RerankDocument",
    "RerankRequest",
    "RerankResult",
    "RerankUsage",
]


class EmbeddingRequest(Fields):
    """An embedding's request: texts or tokens."""

    model: str | None = None
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None
    truncate_prompt_tokens: int | None = None
    request_id: str = id_of("embd")


EmbeddingCompletionRequest = EmbeddingRequest


class EmbeddingResponseData(Fields):
    """One vector: numbers, or the base64 text of their float32 bytes."""

    index: int
    object: str = "embedding"
    embedding: list[float] | str


class Embedding(Fields):
    """An embedding's response."""

    id: str = id_of("embd")
    object: str = "list"
    created: int = now()
    model: str
    data: list[EmbeddingResponseData]
    usage: UsageInfo | None = None


class RerankRequest(Fields):
    """A ranking's request: documents and a query."""

    model: str | None = None
    query: str | dict[str, Any]
    documents: list[str] | dict[str, Any] | list[dict[str, Any]]
    top_n: int = 0
    truncate_prompt_tokens: int | None = None
    user: str | None = None
    request_id: str = id_of("rerank")


class RerankDocument(Fields):
    """A document."""

    text: str | None = None


class RerankResult(Fields):
    """A ranked document."""

    index: int
    document: RerankDocument
    relevance_score: float


class RerankUsage(Fields):
    """Token counts."""

    prompt_tokens: int = 0
    total_tokens: int = 0


class Rerank(Fields):
    """A ranking's response: documents in order."""

    id: str = id_of("rerank")
    model: str
    usage: RerankUsage = default_factory(RerankUsage)
    results: list[RerankResult]
