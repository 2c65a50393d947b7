"""Base of models that generate: their inputs and outputs, calls, numbers of tokens, and responses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock._runtime.peers import Generation
from penstock._spec.tensor import Tensor
from penstock.errors import Cancelled, SignatureError
from penstock.openai._errors import OPENAI, ErrorForm, error_response
from penstock.openai._events import Document, End, Part, encode
from penstock.openai._member_inputs import MemberInputs
from penstock.openai._members import DECLARED, PARTS
from penstock.openai._served import Served
from penstock.openai._tensors import TextInput, as_model, pick

if TYPE_CHECKING:
    from penstock._core import Context, GeneratedChoice

__all__ = ["Ask", "Form", "Generating", "new_id"]

FINISH_REASON = "finish_reason"
LONG_TEXT = 32768
"""Characters whose tokens take a while to count."""


@dataclass(frozen=True)
class Ask:
    """Calls of a model for one request."""

    prompts: list[Any]
    """The prompt of each answer: a text, a JSON document as text, or tokens."""
    counted: list[str]
    """Texts whose tokens are those of the prompts."""
    members: Mapping[str, Any] = field(default_factory=dict)
    """Members of the request that are inputs of the model."""
    parameters: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    """The text ends before the first of these."""


@dataclass(frozen=True)
class Form:
    """The form of a response."""

    api: str
    head: Document
    """Members that the document or each event has."""
    id: str
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    echo: list[str] = field(default_factory=list)
    counts_prompt: bool = False
    """The first event has the number of the prompt's tokens."""
    errors: ErrorForm = OPENAI


class Generating(Served):
    """Base of models that generate text.

    Args:
        target: The model.
        name: The `model` in requests; default: the model's name.
        input: Name of the input; required if several inputs fit.
        output: Name of the output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is what the model gives, else 0.
        accepts: Members and types of content parts that the model accepts, besides the names of its optional inputs.
        documents: Set if the input is a JSON document.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str | None,
        input: str | None,  # noqa: A002 - the API's name
        output: str | None,
        tokens: Callable[[str], int] | None,
        accepts: Collection[str],
        documents: bool = False,
    ) -> None:
        kind = type(self).__name__
        self.model = as_model(target, kind)
        self.name = self.model.name if name is None else name
        what = f"{kind}({self.model.name!r})"
        usual = "messages" if documents else "prompt"
        self._text = TextInput(self.model, input, what, documents=documents, usual=usual)
        others = [one for one in self.model.outputs if one.name != FINISH_REASON]
        self._output = pick(others, output, _is_generated, f"{what}: its output")
        self._has_reason = len(others) < len(self.model.outputs)
        self._tokens = tokens
        self._inputs = MemberInputs(self.model, self._text.tensor.name)
        if unknown := sorted(set(accepts) - DECLARED - PARTS):
            expected = ", ".join(sorted(DECLARED | PARTS))
            raise SignatureError(f"{what}: accepts has {unknown[0]!r}, expected some of: {expected}")
        self._parts = PARTS & set(accepts)
        self._accepted = (DECLARED & set(accepts)) | (DECLARED & self._inputs.names)

    async def response(self, ask: Ask, form: Form, ctx: Context) -> bytes | AsyncGenerator[Part, None]:
        """Calls the model. Returns the response: a document, or an iterator over the parts of a stream."""
        prompt = await self._count_aside(ask.counted) if form.counts_prompt and form.stream else 0
        generation = self._generation(ask, form, ctx, prompt)
        if form.stream:
            return self._events(generation, ask, form, ctx)
        async with aclosing(generation):
            ended = False
            while not ended:
                _, ended = await generation.read()
            usage = await self._usage(ask, generation.native.choices())
            self._record(usage, generation, form, ctx)
            return generation.native.finish(*usage)

    def _generation(self, ask: Ask, form: Form, ctx: Context, prompt_tokens: int) -> Generation:
        chunks = _core.ChunkFormat(
            self._output.name,
            documents=self._output.document,
            finish_reason=FINISH_REASON if self._has_reason else None,
            stops=ask.stops,
            retain=not form.stream or self._tokens is not None,
        )
        events = _core.EventFormat(
            form.api,
            encode(form.head).decode(),
            form.id,
            document=not form.stream,
            include_usage=form.include_usage,
            continuous_usage=form.continuous_usage,
            echo=form.echo,
            prompt_tokens=prompt_tokens,
        )
        inputs, parameters = self._inputs.split(ask.members, ask.parameters)
        calls = []
        for index, prompt in enumerate(ask.prompts):
            arrays = {**self._prompt_arrays(prompt), **self._inputs.arrays(_seeded(inputs, index))}
            calls.append((arrays, _seeded(parameters, index)))
        peer = ctx.models[self.model.name, self.model.version]
        return Generation(peer, calls, chunks, events)

    def _prompt_arrays(self, prompt: Any) -> dict[str, Any]:
        return self._text.arrays([prompt])

    async def _events(self, generation: Generation, ask: Ask, form: Form, ctx: Context) -> AsyncGenerator[Part, None]:
        """The events of a stream. The first ones are read here, as an error before them sets the status."""
        native = generation.native
        async with aclosing(generation):
            first, ended = await generation.read()
            yield first
            try:
                if not ended:
                    yield native.rest()
                    await generation.ended()
                usage = await self._usage(ask, native.choices())
                self._record(usage, generation, form, ctx)
                last = native.finish(*usage)
            except Cancelled:
                raise
            except Exception as raised:
                error = error_response(raised, form.errors)
                last = native.fail(encode(error.body).decode(), error.message, error.code)
            yield End(last)

    async def _usage(self, ask: Ask, choices: list[GeneratedChoice]) -> tuple[int, int, int | None, int | None]:
        """Tokens of the prompts and the answers: what the model gives, else what `tokens=` counts."""
        given = [choice.usage for choice in choices]
        prompt = next((usage[0] for usage in given if usage[0] is not None), None)
        if prompt is None:
            prompt = await self._count_aside(ask.counted)
        texts = ["".join([one.reasoning, one.content, *one.tool_arguments]) for one in choices if one.usage[1] is None]
        completion = sum(usage[1] or 0 for usage in given) + await self._count_aside(texts)
        cached, reasoning = (_sum(usage[index] for usage in given) for index in (2, 3))
        return prompt, completion, cached, reasoning

    def _record(self, usage: tuple[int, int, Any, Any], generation: Generation, form: Form, ctx: Context) -> None:
        """Counts tokens in the metrics of the model, where they are known."""
        if self._tokens is None and not any(usage[:2]):
            return
        reason = generation.native.choices()[0].finish_reason
        peer = ctx.models[self.model.name, self.model.version]
        operation = "text_completion" if form.api == "completions" else "chat"
        peer.record_tokens(prompt=usage[0], completion=usage[1], finish_reason=reason, operation=operation)

    async def _count_aside(self, texts: list[str]) -> int:
        """Counts long texts on another thread: the event loop serves other requests meanwhile."""
        if self._tokens is None or sum(map(len, texts)) < LONG_TEXT:
            return self._count_all(texts)
        return await asyncio.to_thread(self._count_all, texts)

    def _count_all(self, texts: list[str]) -> int:
        return sum(map(self._count, texts))

    def _count(self, text: str) -> int:
        return 0 if self._tokens is None else int(self._tokens(text))


def new_id() -> str:
    """A new id of a response, without the prefixes of the API."""
    return uuid.uuid4().hex


def _seeded(values: dict[str, Any], index: int) -> dict[str, Any]:
    """The values of one answer: several answers of one seed would be the same."""
    seed = values.get("seed")
    return {**values, "seed": seed + index} if index and isinstance(seed, int) else values


def _sum(numbers: Any) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _is_generated(tensor: Tensor) -> bool:
    return tensor.dtype is None and tensor.datatype == "BYTES"
