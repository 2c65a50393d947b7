"""`Completions`: a model for text completions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.openai._body import Body
from penstock.openai._events import Document, End, Part
from penstock.openai._generating import Generating, Run
from penstock.openai._options import check_once, streams, wants_usage
from penstock.openai._served import Endpoint
from penstock.openai._stops import stop_texts

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Completions"]

MOST_PROMPTS = 128


class Completions(Generating):
    """Serves a model at `/v1/completions`.

    The model's input is a prompt, its output text: the whole text, or its chunks if the handler streams. Members of a
    request such as `temperature` and `max_tokens` are in `ctx.parameters`. The route itself ends texts at `stop`.

    Args:
        model: The model. The server needs it too. Its optional output `finish_reason` is "stop" or "length"; the last
            value counts.
        name: The `model` in requests; default: the model's name.
        input: Name of the prompt input; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is 0.

    Raises:
        SignatureError: the model has no such input or output.

    Example:
        >>> @model
        ... def complete(prompt: str, ctx: Context) -> Iterator[str]:
        ...     yield from generate(prompt, ctx.parameters.get("max_tokens", 16))
        >>> serve(complete, openai.routes(openai.Completions(complete)))
    """

    example: ClassVar[dict[str, Any]] = {"prompt": "Hello"}

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        input: str | None = None,  # noqa: A002 - the API's name
        output: str | None = None,
        tokens: Callable[[str], int] | None = None,
    ) -> None:
        super().__init__(model, name=name, input=input, output=output, tokens=tokens)

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        return {"completions": Endpoint(self.answer)}

    async def answer(self, body: Body, ctx: Context) -> Document | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        runs = [Run(prompt) for prompt in body.texts("prompt", MOST_PROMPTS)]
        check_once(body)
        body.refuse({"best_of": (1,), "logprobs": (), "suffix": ("",)})
        echo = body.get("echo", bool, False)
        stop_texts(body)
        head = {"id": self.new_id("cmpl"), "object": "text_completion", "created": int(time.time()), "model": self.name}
        if streams(body):
            return self._events(runs, head, body, ctx, echo=echo)
        await self.complete_all(runs, body, ctx)
        choices = [_choice(i, run.prompt * echo + run.text, run.reason) for i, run in enumerate(runs)]
        return {**head, "choices": choices, "usage": self.usage(runs)}

    async def _events(
        self, runs: list[Run], head: dict[str, Any], body: Body, ctx: Context, *, echo: bool
    ) -> AsyncGenerator[Part, None]:
        with_usage = wants_usage(body)
        extra = {"usage": None} if with_usage else {}

        def event(index: int, text: str, reason: str | None = None) -> Document:
            return {**head, "choices": [_choice(index, text, reason)], **extra}

        if echo:
            yield [event(index, run.prompt) for index, run in enumerate(runs)]
        retain = self.counts(with_usage)
        if len(runs) == 1:
            parts = self.parts(runs[0], body, ctx, lambda text: event(0, text), retain=retain)
            async with aclosing(parts):
                async for part in parts:
                    yield part
            last = [event(0, "", runs[0].reason)]
        else:
            last = []
            async with aclosing(self._merged(runs, body, ctx, retain=retain)) as chunks:
                async for index, texts in chunks:
                    # Without texts, it is the end of that one.
                    yield [event(index, text) for text in texts] or [event(index, "", runs[index].reason)]
        if with_usage:
            last.append({**head, "choices": [], "usage": self.usage(runs)})
        yield End(last)

    async def _merged(
        self, runs: list[Run], body: Body, ctx: Context, *, retain: bool
    ) -> AsyncGenerator[tuple[int, list[str]], None]:
        """The chunks of all texts as they arrive, each list with the index of its text; an empty one at its end."""
        ready: asyncio.Queue[tuple[int, Any]] = asyncio.Queue(maxsize=len(runs))

        async def read(index: int, run: Run) -> None:
            try:
                async with aclosing(self.texts(run, body, ctx, retain=retain)) as texts:
                    while chunks := await texts.read():
                        await ready.put((index, chunks))
                    run.take_from(texts)
                await ready.put((index, []))
            except Exception as raised:
                await ready.put((index, raised))

        tasks = [asyncio.ensure_future(read(index, run)) for index, run in enumerate(runs)]
        try:
            open_texts = len(runs)
            while open_texts:
                index, chunks = await ready.get()
                if isinstance(chunks, Exception):
                    raise chunks
                open_texts -= not chunks
                yield index, chunks
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason}
