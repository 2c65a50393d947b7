"""`Completions`: a model for text completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._events import Part
from penstock.openai._generating import Ask, Form, Generating, new_id
from penstock.openai._members import DECLARED, HANDLED, answers, members, parameters, stops, stream_options
from penstock.openai._served import Endpoint

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Completions"]

MOST_PROMPTS = 128
TOKENS = "prompt_token_ids"
"""The input for prompts of tokens."""


class Completions(Generating):
    """Serves a model at `/v1/completions`.

    The model's input is a prompt, its output text: the whole text, or its chunks if the handler streams. Members of a
    request such as `temperature` and `max_tokens` are in `ctx.parameters`, or in an optional input of that name. The
    route itself ends texts at `stop`.

    Args:
        model: The model. The server needs it too. Its optional output `finish_reason` is "stop" or "length"; the last
            value counts. It may yield `Delta` instead of text. With an optional input `prompt_token_ids` of integers it
            takes prompts of tokens.
        name: The `model` in requests; default: the model's name.
        input: Name of the prompt input; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is what the model gives, else 0.
        accepts: Members that the model takes from `ctx.parameters`, such as `logprobs`; default: none but the names of
            its optional inputs.

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
        accepts: Collection[str] = (),
    ) -> None:
        super().__init__(model, name=name, input=input, output=output, tokens=tokens, accepts=accepts)

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        return {"completions": Endpoint(self.answer)}

    async def answer(self, body: Body, ctx: Context) -> bytes | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        prompts = self._prompts(body)
        options = stream_options(body)
        count = answers(body)
        echo = body.get("echo", bool, False)
        texts = [prompt if isinstance(prompt, str) else "" for prompt in prompts]
        if echo and not all(isinstance(prompt, str) for prompt in prompts):
            raise Refused("'echo' needs prompts of text", "echo")
        ask = Ask(
            [prompt for prompt in prompts for _ in range(count)],
            texts,
            members(body, self._accepted),
            parameters(body, HANDLED | DECLARED),
            stops(body),
        )
        id_ = new_id()
        head = {"id": f"cmpl-{id_}", "object": "text_completion", "created": int(time.time()), "model": self.name}
        echoed = [text for text in texts for _ in range(count)] if echo else []
        return await self.response(ask, Form("completions", head, id_, *options, echo=echoed), ctx)

    def _prompts(self, body: Body) -> list[Any]:
        """The prompts: texts, or lists of tokens where the model takes them."""
        value = body.needed("prompt")
        if TOKENS not in self._inputs.names:
            return list(body.texts("prompt", MOST_PROMPTS))
        if isinstance(value, str) or _are_tokens(value):
            return [value]
        if not isinstance(value, list) or not value:
            raise Refused("'prompt' must be a string, a list of token ids, or a list of these", "prompt")
        if len(value) > MOST_PROMPTS:
            raise Refused(f"'prompt' has {len(value)} prompts, expected {MOST_PROMPTS} at most", "prompt")
        for index, one in enumerate(value):
            if not isinstance(one, str) and not _are_tokens(one):
                where = f"prompt[{index}]"
                raise Refused(f"'{where}' must be a string or a list of token ids", where)
        return value

    def _prompt_arrays(self, prompt: Any) -> dict[str, Any]:
        if isinstance(prompt, str):
            return super()._prompt_arrays(prompt)
        empty = {} if self._text.tensor.optional else super()._prompt_arrays("")
        return {**empty, **self._inputs.arrays({TOKENS: prompt})}


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and 0 <= one < 2**63 for one in value)
