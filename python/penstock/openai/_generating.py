"""Common part of completions and chats: generated text and its chunks."""

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
        """Text so far."""


class Generating:
    """Base of models that generate text.

    Args:
        target: The model.
        name: The `model` in requests; default: the model's name.
        input: Name of the text input; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is 0.
        documents: Set if the input is a JSON document.
    """

    path: str
    kind: str

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

    async def chunks(self, run: Run, body: Body, ctx: Context) -> AsyncGenerator[str, None]:
        """The text in chunks, up to a stop text of the request."""
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

    async def complete(self, run: Run, body: Body, ctx: Context) -> Run:
        """Generates the complete text."""
        async with aclosing(self.chunks(run, body, ctx)) as chunks:
            async for _ in chunks:
                pass
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

    def new_id(self, prefix: str) -> str:
        """A new id of a response."""
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
    """The text of all elements. Bytes may end within a character, which the next chunk completes."""
    parts = np.asarray(value, object).reshape(-1).tolist()
    return "".join(one if isinstance(one, str) else decode(bytes(one)) for one in parts)
