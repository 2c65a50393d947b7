"""Common part of completions and chats: generated text and its chunks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from penstock._runtime.peers import Texts
from penstock._spec.tensor import Tensor
from penstock.openai._body import Body
from penstock.openai._events import Document, Part, text_body
from penstock.openai._served import Served
from penstock.openai._stops import stop_texts
from penstock.openai._tensors import TextInput, as_model, pick

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Generating", "Run"]

FINISH_REASON = "finish_reason"
KNOWN = frozenset(
    {
        "best_of",
        "echo",
        "function_call",
        "functions",
        "logprobs",
        "messages",
        "metadata",
        "modalities",
        "model",
        "n",
        "parallel_tool_calls",
        "prompt",
        "response_format",
        "stop",
        "store",
        "stream",
        "stream_options",
        "suffix",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)
"""Members of a request that are not parameters of the model."""


class Run:
    """Generation of one text."""

    def __init__(self, prompt: str, counted: str | None = None) -> None:
        self.prompt = prompt
        self.counted = prompt if counted is None else counted
        """Text of the prompt whose tokens are counted."""
        self.reason = "stop"
        """Finish reason."""
        self.text = ""
        """Complete text, if it is retained."""

    def take_from(self, texts: Texts) -> None:
        """Takes the text and the finish reason at the end of the text."""
        self.text = texts.stream.text or ""
        self.reason = texts.stream.finish_reason or self.reason


class Generating(Served):
    """Base of models that generate text.

    Args:
        target: The model.
        name: The `model` in requests; default: the model's name.
        input: Name of the text input; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is 0.
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
        documents: bool = False,
    ) -> None:
        self.model = as_model(target, type(self).__name__)
        self.name = self.model.name if name is None else name
        what = f"{type(self).__name__}({self.model.name!r})"
        self._text = TextInput(self.model, input, what, documents=documents)
        others = [one for one in self.model.outputs if one.name != FINISH_REASON]
        self._output = pick(others, output, _is_text, f"{what}: its output")
        self._has_reason = len(others) < len(self.model.outputs)
        self._tokens = tokens

    def texts(self, run: Run, body: Body, ctx: Context, *, retain: bool, deferred: bool = False) -> Texts:
        """The generated text, up to a stop text of the request.

        Args:
            run: The generation.
            body: The request.
            ctx: The context of the route's handler.
            retain: Retains the text, for `Run.text`.
            deferred: Waits for many chunks or the end, not for each chunk.
        """
        parameters = body.rest(KNOWN)
        if "max_completion_tokens" in parameters:
            parameters.setdefault("max_tokens", parameters["max_completion_tokens"])
        peer = ctx.models[self.model.name, self.model.version].with_parameters(**parameters)
        return Texts(
            peer,
            self._text.arrays([run.prompt]),
            output=self._output.name,
            finish_reason=FINISH_REASON if self._has_reason else None,
            stops=stop_texts(body),
            retain=retain,
            deferred=deferred,
        )

    async def parts(
        self, run: Run, body: Body, ctx: Context, form: Callable[[str], Document], *, retain: bool
    ) -> AsyncGenerator[Part, None]:
        """The events of the text's chunks. The first one is read here, as an error before it sets the status."""
        async with aclosing(self.texts(run, body, ctx, retain=retain)) as texts:
            if first := await texts.read(most=1):
                yield [form(text) for text in first]
                # Unlike a constant, a new id cannot be in a model's name.
                yield text_body(texts.stream, form, uuid.uuid4().hex)
                await texts.ended()
            run.take_from(texts)

    async def complete(self, run: Run, body: Body, ctx: Context) -> Run:
        """Generates the complete text."""
        async with aclosing(self.texts(run, body, ctx, retain=True, deferred=True)) as texts:
            while await texts.read():
                pass
            run.take_from(texts)
        return run

    async def complete_all(self, runs: list[Run], body: Body, ctx: Context) -> list[Run]:
        """Generates several complete texts concurrently."""
        tasks = [asyncio.ensure_future(self.complete(run, body, ctx)) for run in runs]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def usage(self, runs: list[Run]) -> dict[str, int]:
        """Token counts of the request and its texts."""
        prompt, completion = sum(self._count(run.counted) for run in runs), sum(self._count(run.text) for run in runs)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def counts(self, with_usage: bool) -> bool:
        """True if the text of a stream is needed at its end."""
        return with_usage and self._tokens is not None

    def new_id(self, prefix: str) -> str:
        """A new id of a response."""
        return f"{prefix}-{uuid.uuid4().hex}"

    def _count(self, text: str) -> int:
        return 0 if self._tokens is None else int(self._tokens(text))


def _is_text(tensor: Tensor) -> bool:
    return tensor.dtype is None and tensor.datatype == "BYTES" and not tensor.document
