"""`Rerank`: a model that scores documents for a query."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._ranking.pairs import Pair, Pairs
from penstock.openai._served import Endpoint, Served
from penstock.openai._tensors import as_model

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Rerank"]

MOST_DOCUMENTS = 10_000
"""Limit of documents in a request, as at Cohere."""

KNOWN = frozenset({"model", "query", "documents", "top_n", "return_documents", "rank_fields"})
SCORE_KNOWN = frozenset({"model", "text_1", "text_2", "queries", "documents"})
"""Members of a request that are not parameters of the model."""


class Rerank(Served):
    """Serves a model at `/v1/rerank` and `/v1/score`, for clients of Cohere, Jina and vLLM.

    The model has two text inputs, a query and a document, and one number as output. With `batching=` a pair is a row,
    which shares batches with other requests. Without it each pair is a call, or all documents of a query are one: the
    input for documents and the output then have the shape [-1].

    Args:
        model: The model. The server needs it too.
        name: The `model` in requests; default: the model's name.
        query: Name of the input for the query; default: the first text input.
        document: Name of the input for the document; default: the second text input.
        output: Name of the output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is 0.

    Raises:
        SignatureError: the model has no such inputs or output.

    Example:
        >>> @model(batching=Batching(max_size=32))
        ... def rank(query: list[str], document: list[str]) -> list[float]:
        ...     return cross_encoder.predict(list(zip(query, document))).tolist()
        >>> serve(rank, openai.routes(openai.Rerank(rank)))
    """

    example: ClassVar[dict[str, Any]] = {"query": "Hello", "documents": ["Hello, world", "Goodbye"]}

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        query: str | None = None,
        document: str | None = None,
        output: str | None = None,
        tokens: Callable[[str], int] | None = None,
    ) -> None:
        self.model = as_model(model, "Rerank")
        self.name = self.model.name if name is None else name
        self._pairs = Pairs(
            self.model, query=query, document=document, output=output, what=f"Rerank({self.model.name!r})"
        )
        self._tokens = tokens

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        first, second = (Endpoint(functools.partial(self.rerank, version=version)) for version in ("1", "2"))
        score = Endpoint(self.score)
        return {"rerank": first, "/rerank": first, "/v2/rerank": second, "score": score, "/score": score}

    async def rerank(self, body: Body, ctx: Context, *, version: str) -> dict[str, Any]:
        """Returns the documents in the order of their scores.

        Args:
            body: The request.
            ctx: The context of the route's handler.
            version: The version of Cohere's API.
        """
        body.needed("query")
        query = body.get("query", str, "")
        documents = _documents(body)
        top = body.get("top_n", int, len(documents))
        if top < 1:
            raise Refused(f"'top_n' must be 1 or more, not {top}", "top_n")
        body.refuse({"rank_fields": (["text"],)})
        with_documents = body.get("return_documents", bool, False)
        pairs = [(query, text) for text in documents]
        scores = await self._scores(pairs, body, ctx, KNOWN)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[:top]
        results: list[dict[str, Any]] = [{"index": index, "relevance_score": scores[index]} for index in order]
        if with_documents:
            results = [{**one, "document": {"text": documents[one["index"]]}} for one in results]
        tokens = self._count(pairs)
        return {
            "id": f"rerank-{uuid.uuid4().hex}",
            "object": "list",
            "model": self.name,
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"api_version": {"version": version}, "tokens": {"input_tokens": tokens}},
        }

    async def score(self, body: Body, ctx: Context) -> dict[str, Any]:
        """Returns the score of each pair of texts."""
        pairs = _score_pairs(body)
        scores = await self._scores(pairs, body, ctx, SCORE_KNOWN)
        tokens = self._count(pairs)
        return {
            "id": f"score-{uuid.uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": self.name,
            "data": [{"index": index, "object": "score", "score": score} for index, score in enumerate(scores)],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    async def _scores(self, pairs: list[Pair], body: Body, ctx: Context, known: frozenset[str]) -> list[float]:
        peer = ctx.models[self.model.name, self.model.version].with_parameters(**body.rest(known))
        return await self._pairs.scores(peer, pairs)

    def _count(self, pairs: list[Pair]) -> int:
        return 0 if self._tokens is None else sum(self._tokens(text) for pair in pairs for text in pair)


def _documents(body: Body) -> list[str]:
    """The documents of a request: texts, or objects with a text."""
    given = body.needed("documents")
    if not isinstance(given, list) or not given:
        raise Refused("'documents' must be a list of one document at least", "documents")
    if len(given) > MOST_DOCUMENTS:
        raise Refused(f"'documents' has {len(given)} documents, expected {MOST_DOCUMENTS} at most", "documents")
    texts = [one.get("text") if isinstance(one, dict) else one for one in given]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            where = f"documents[{index}]"
            raise Refused(f"'{where}' must be a string or an object with a 'text'", where)
    return [str(text) for text in texts]


def _score_pairs(body: Body) -> list[Pair]:
    """The pairs of a request: as many texts on both sides, or one text and several."""
    names = ("queries", "documents") if body.get("queries", object, None) is not None else ("text_1", "text_2")
    left, right = (body.texts(name, MOST_DOCUMENTS) for name in names)
    if len(left) == 1:
        left = left * len(right)
    if len(left) != len(right):
        raise Refused(
            f"{names[0]!r} has {len(left)} texts and {names[1]!r} {len(right)}: expected as many, or one {names[0]!r}",
            names[1],
        )
    return list(zip(left, right, strict=True))
