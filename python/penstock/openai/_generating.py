"""What completions and chats have in common: the model's text, piece by piece."""

from __future__ import annotations

import asyncio
import codecs
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError
from penstock.openai._body import Body
from penstock.openai._stops import Stops
from penstock.openai._tensors import TextInput, as_model, outputs_of, pick

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
"""The members of a request that are no parameters of the model's."""


class Run:
    """One text that a model makes."""

    def __init__(self, prompt: str, asked: str | None = None) -> None:
        self.prompt = prompt
        self.asked = prompt if asked is None else asked
        """What of it is text, whose tokens count."""
        self.reason = "stop"
        """Why it ended."""
        self.text = ""
        """What of it was passed on so far."""


class Generating:
    """A model that makes text of text.

    Args:
        target: The model.
        name: What clients name as `model`; else the model's own name.
        input: The input that takes the text; needed where several could.
        output: The output with the text; needed where several could be.
        tokens: Counts the tokens of a text for `usage`; without it `usage` says 0.
        documents: Whether the input takes a JSON document.
    """

    path: str
    kind: str

    def __init__(
        self,
        target: Any,
        *,
        name: str | None,
        input: str | None,  # noqa: A002 - as the API names it
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

    async def pieces(self, run: Run, body: Body, ctx: Context) -> AsyncGenerator[str, None]:
        """The text as it is made, up to what the request stops it at."""
        parameters = body.rest(KNOWN)
        if "max_completion_tokens" in parameters:
            parameters.setdefault("max_tokens", parameters["max_completion_tokens"])
        peer = ctx.models[self.model.name, self.model.version].with_parameters(**parameters)
        stops, decode = Stops(Stops.of(body)), codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        async with aclosing(peer.stream(self._text.arrays([run.prompt]))) as answers:
            async for given in answers:
                text = stops.feed(self._read(run, outputs_of(self.model, given), decode))
                run.text += text
                if text:
                    yield text
                if stops.found:
                    run.reason = "stop"
                    return
        if rest := stops.feed(decode(b"", True)) + stops.rest():
            run.text += rest
            yield rest

    async def whole(self, run: Run, body: Body, ctx: Context) -> Run:
        """The same when all of it is there."""
        async with aclosing(self.pieces(run, body, ctx)) as pieces:
            async for _ in pieces:
                pass
        return run

    async def wholes(self, runs: list[Run], body: Body, ctx: Context) -> list[Run]:
        """Several, at once."""
        tasks = [asyncio.ensure_future(self.whole(run, body, ctx)) for run in runs]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def usage(self, runs: list[Run]) -> dict[str, int]:
        """How many tokens there were."""
        asked, made = sum(self._count(run.asked) for run in runs), sum(self._count(run.text) for run in runs)
        return {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}

    def new_id(self, prefix: str) -> str:
        """The id of an answer."""
        return f"{prefix}-{uuid.uuid4().hex}"

    def _count(self, text: str) -> int:
        return 0 if self._tokens is None else int(self._tokens(text))

    def _read(self, run: Run, outputs: Any, decode: Callable[[bytes], str]) -> str:
        if self._has_reason and outputs.get(FINISH_REASON) is not None:
            run.reason = _text(outputs[FINISH_REASON], bytes.decode) or run.reason
        if self._output.name not in outputs:
            raise HandlerError(f"model {self.model.name!r} gave no {self._output.name!r}")
        return _text(outputs[self._output.name], decode)


def _is_text(tensor: Tensor) -> bool:
    return tensor.dtype is None and tensor.datatype == "BYTES" and not tensor.document


def _text(value: Any, decode: Callable[[bytes], str]) -> str:
    """The text of all elements; bytes may end in the middle of a character, which the next ones complete."""
    parts = np.asarray(value, object).reshape(-1).tolist()
    return "".join(one if isinstance(one, str) else decode(bytes(one)) for one in parts)
