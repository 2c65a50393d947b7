"""`Embeddings`: a model for embeddings of texts."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from penstock._spec import datatypes
from penstock._spec.tensor import Tensor
from penstock.openai._body import Body
from penstock.openai._calls import concurrency_of, run_bounded
from penstock.openai._errors import Refused
from penstock.openai._served import Endpoint, Served
from penstock.openai._tensors import TextInput, as_model, numbers, outputs_of, pick

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Embeddings"]

MOST_TEXTS = 2048
"""Limit of texts in a request, as at OpenAI."""


class Embeddings(Served):
    """Serves a model at `/v1/embeddings`.

    The model's input is text: a row of a batch, a single text, or any number of texts with the shape [-1]. Its output
    is one vector per text. Texts of several requests share batches.

    Args:
        model: The model. The server needs it too.
        name: The `model` in requests; default: the model's name.
        input: Name of the text input; required if several inputs fit.
        output: Name of the vector output; required if several outputs fit.
        tokens: Token counts for `usage`: a function of a text, or the name of an output with one integer per text;
            default: `usage` is 0.
        shorten: Whether requests may set `dimensions`. A vector is then cut and scaled to length 1, which needs a model
            trained for it.

    Raises:
        SignatureError: the model has no such input or output.

    Example:
        >>> serve(minilm, openai.routes(openai.Embeddings(minilm, name="all-MiniLM-L6-v2")))
    """

    example: ClassVar[dict[str, Any]] = {"input": "Hello"}

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        input: str | None = None,  # noqa: A002 - the API's name
        output: str | None = None,
        tokens: Callable[[str], int] | str | None = None,
        shorten: bool = False,
    ) -> None:
        self.model = as_model(model, "Embeddings")
        self.name = self.model.name if name is None else name
        what = f"Embeddings({self.model.name!r})"
        self._text = TextInput(self.model, input, what)
        named = {tokens} if isinstance(tokens, str) else set()
        vectors = [one for one in self.model.outputs if one.name not in named]
        self._vector = pick(vectors, output, self._is_vector, f"{what}: its output")
        if isinstance(tokens, str):
            pick(self.model.outputs, tokens, lambda one: "INT" in one.datatype, f"{what}: tokens")
        self._tokens, self._shorten = tokens, shorten

    def _is_vector(self, tensor: Tensor) -> bool:
        axes = [axis for axis in tensor.shape if axis != 1]
        numbers = (tensor.dtype is not None and tensor.dtype.kind in "fiu") or tensor.datatype in datatypes.WIDENED
        return numbers and len(axes) <= (2 if self._text.takes_several else 1)

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        return {"embeddings": Endpoint(self.answer)}

    async def answer(self, body: Body, ctx: Context) -> dict[str, Any]:
        """Returns the response, a document."""
        texts = body.texts("input", MOST_TEXTS)
        encode = self._encoder(body)
        dimensions = body.get("dimensions", int, 0)
        if dimensions < 0:
            raise Refused("'dimensions' must be 1 or more", "dimensions")
        parameters = body.rest(frozenset({"input", "model", "encoding_format", "dimensions"}))
        peer = ctx.models[self.model.name, self.model.version].with_parameters(**parameters)

        async def call(part: list[str]) -> tuple[Any, Any]:
            return self._read(part, await peer.aio(self._text.arrays(part)))

        parts = self._parts(texts)
        found = await run_bounded([functools.partial(call, part) for part in parts], concurrency_of(self.model))
        vectors = self._shorten_vectors([one for rows, _ in found for one in rows], dimensions)
        tokens = sum(self._token_count(part, counted) for part, (_, counted) in zip(parts, found, strict=True))
        data = [
            {"object": "embedding", "index": index, "embedding": encode(vector)} for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self.name, "usage": usage}

    def _parts(self, texts: list[str]) -> list[list[str]]:
        """Splits texts into calls of the model."""
        batching = self.model.batching
        size = batching.max_size if batching is not None else len(texts) if self._text.takes_several else 1
        return [texts[begin : begin + size] for begin in range(0, len(texts), size)]

    def _read(self, texts: list[str], given: Any) -> tuple[Any, Any]:
        outputs = outputs_of(self.model, given)
        vectors = np.asarray(outputs[self._vector.name], np.float32).reshape(len(texts), -1)
        return vectors, outputs.get(self._tokens) if isinstance(self._tokens, str) else None

    def _token_count(self, texts: list[str], counted: Any) -> int:
        if counted is not None:
            return int(np.sum(counted))
        return sum(map(self._tokens, texts)) if callable(self._tokens) else 0

    def _shorten_vectors(self, vectors: Sequence[Any], dimensions: int) -> Sequence[Any]:
        width = len(vectors[0])
        if dimensions in (0, width):
            return vectors
        if not self._shorten:
            raise Refused(f"Model {self.name!r} has {width} dimensions, which cannot be chosen", "dimensions")
        if dimensions > width:
            raise Refused(f"'dimensions' is {dimensions}, model {self.name!r} has {width}", "dimensions")
        cut = np.stack(vectors)[:, :dimensions]
        lengths = np.linalg.norm(cut, axis=1, keepdims=True)
        return list(cut / np.where(lengths > 0, lengths, 1))

    def _encoder(self, body: Body) -> Callable[[Any], Any]:
        encoding = body.get("encoding_format", str, "float")
        if encoding not in ("float", "base64"):
            raise Refused(f"'encoding_format' must be 'float' or 'base64', not {encoding!r}", "encoding_format")
        return _base64 if encoding == "base64" else numbers


def _base64(vector: Any) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
