"""Calls of a model that scores pairs of texts."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._spec import datatypes
from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError, SignatureError
from penstock.openai._calls import concurrency_of, run_bounded
from penstock.openai._tensors import is_text, numbers, outputs_of, pick, texts_array

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._runtime.peers import Peer

__all__ = ["Pair", "Pairs"]

Pair = tuple[str, str]
"""A query and a document."""


class Pairs:
    """The inputs of a model for a query and a document, and its output for their score.

    Args:
        model: The model.
        query: Name of the input for the query; default: the first text input.
        document: Name of the input for the document; default: the other text input.
        output: Name of the output; required if several fit.
        what: Begin of messages.

    Raises:
        SignatureError: the model has no such inputs or output.
    """

    def __init__(
        self, model: Model[..., Any], *, query: str | None, document: str | None, output: str | None, what: str
    ) -> None:
        texts = [one for one in model.inputs if is_text(one)]
        if query is None and document is None and len(texts) >= 2:
            query = texts[0].name
        self._query = pick([one for one in texts if one.name != document], query, _is_one, f"{what}: its query")
        others = [one for one in texts if one.name != self._query.name]
        self._document = pick(others, document, lambda one: len(one.shape) <= 1, f"{what}: its document")
        for other in model.inputs:
            if not other.optional and other.name not in (self._query.name, self._document.name):
                raise SignatureError(f"{what}: input {other.name!r} is needed too; make it optional=True")
        self._batched = model.batching is not None
        self._takes_several = not self._batched and self._document.shape == (-1,)
        self._score = pick(model.outputs, output, self._is_score, f"{what}: its output")
        self._model = model

    def _is_score(self, tensor: Tensor) -> bool:
        axes = [axis for axis in tensor.shape if axis != 1]
        is_number = (tensor.dtype is not None and tensor.dtype.kind in "fiu") or tensor.datatype in datatypes.WIDENED
        return is_number and axes in ([[], [-1]] if self._takes_several else [[]])

    async def scores(self, peer: Peer, pairs: list[Pair]) -> list[float]:
        """The score of each pair, in their order.

        Args:
            peer: The model.
            pairs: The pairs, one at least.
        """

        async def call(part: list[Pair]) -> list[float]:
            queries = [query for query, _ in part] if self._batched else [part[0][0]]
            inputs = {
                self._query.name: texts_array(queries, self._query, batched=self._batched),
                self._document.name: texts_array([text for _, text in part], self._document, batched=self._batched),
            }
            given = np.asarray(outputs_of(self._model, await peer.aio(inputs))[self._score.name])
            if given.size != len(part):
                raise HandlerError(f"model {self._model.name!r} gave {given.size} scores for {len(part)} documents")
            return numbers(given.reshape(-1))

        calls = [functools.partial(call, part) for part in self._parts(pairs)]
        found = await run_bounded(calls, concurrency_of(self._model))
        return list(itertools.chain.from_iterable(found))

    def _parts(self, pairs: list[Pair]) -> list[list[Pair]]:
        """Splits pairs into calls of the model."""
        if self._takes_several:
            return [list(part) for _, part in itertools.groupby(pairs, key=lambda pair: pair[0])]
        size = 1 if self._model.batching is None else self._model.batching.max_size
        return [pairs[begin : begin + size] for begin in range(0, len(pairs), size)]


def _is_one(tensor: Tensor) -> bool:
    return len(tensor.shape) <= 1 and all(axis in (1, -1) for axis in tensor.shape)
