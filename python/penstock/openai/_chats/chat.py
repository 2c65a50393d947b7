"""`Chat`: a model for chats."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.openai._body import Body
from penstock.openai._chats.anthropic import ANTHROPIC, Anthropic
from penstock.openai._chats.chat_model import ChatModel
from penstock.openai._chats.responses import RESPONSES, Responses
from penstock.openai._events import Part
from penstock.openai._generating import Form, new_id
from penstock.openai._members import DECLARED, HANDLED, answers, parameters, stream_options
from penstock.openai._served import Endpoint

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Chat"]


class Chat(ChatModel):
    """Serves a model at `/v1/chat/completions`, `/v1/responses` and `/v1/messages`.

    With a template, the model's input is the prompt. Without one, it is the list of messages as a JSON document:
    `def chat(messages: list[dict[str, Any]]) -> Iterator[str]`. A model accepts `tools`, `response_format` and other
    members by an optional input of that name, or the template by a keyword of that name.

    Args:
        model: The model, as for `Completions`. It yields text or `Delta`.
        template: Converts messages to a prompt. Each message has `role` and `content`, the text of its parts joined.
            Example: `lambda messages: tokenizer.apply_chat_template(messages, tokenize=False,
            add_generation_prompt=True)`.
        name: The `model` in requests; default: the model's name.
        input: Name of the input; required if several inputs fit.
        output: Name of the output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is what the model gives, else 0.
        accepts: Content parts that the model takes in messages, such as `image_url` and `input_audio`, and members that
            it takes from `ctx.parameters`, such as `logprobs` and `reasoning_effort`.

    Raises:
        SignatureError: the model has no such input or output.

    Example:
        >>> serve(complete, openai.routes(openai.Completions(complete), openai.Chat(complete, template=as_prompt)))
    """

    example: ClassVar[dict[str, Any]] = {"messages": [{"role": "user", "content": "Hello"}]}

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        responses, anthropic = Responses(self), Anthropic(self)
        found = {
            "chat/completions": Endpoint(self.answer),
            "responses": Endpoint(responses.answer, RESPONSES),
            "messages": Endpoint(anthropic.answer, ANTHROPIC),
        }
        if self._tokens is not None:
            found["messages/count_tokens"] = Endpoint(anthropic.count, ANTHROPIC)
        return found

    async def answer(self, body: Body, ctx: Context) -> bytes | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        messages = body.needed("messages")
        options = stream_options(body)
        ask = self.ask(messages, body, answers(body), parameters(body, HANDLED | DECLARED))
        id_ = new_id()
        kind = "chat.completion.chunk" if options.stream else "chat.completion"
        head = {"id": f"chatcmpl-{id_}", "object": kind, "created": int(time.time()), "model": self.name}
        return await self.response(ask, Form("chat", head, id_, *options), ctx)
