"""`Chat`: a model for chat completions."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import SignatureError
from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._events import Document, End, Part
from penstock.openai._generating import Generating, Run
from penstock.openai._options import check_once, streams, wants_usage
from penstock.openai._served import Endpoint
from penstock.openai._stops import stop_texts

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Chat"]

Message = dict[str, Any]


class Chat(Generating):
    """Serves a model at `/v1/chat/completions`.

    With a template, the model's input is the prompt. Without one, it is the list of messages as a JSON document:
    `def chat(messages: list[dict[str, Any]]) -> Iterator[str]`.

    Args:
        model: The model, as for `Completions`.
        template: Converts messages to a prompt. Each message has `role` and `content`, both text. Example:
            `lambda messages: tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)`.
        name: The `model` in requests; default: the model's name.
        input: Name of the input; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.
        tokens: Counts the tokens of a text, for `usage`; default: `usage` is 0.

    Raises:
        SignatureError: the model has no such input or output.

    Example:
        >>> serve(complete, openai.routes(openai.Completions(complete), openai.Chat(complete, template=as_prompt)))
    """

    example: ClassVar[dict[str, Any]] = {"messages": [{"role": "user", "content": "Hello"}]}

    def __init__(
        self,
        model: Any,
        template: Callable[[list[Message]], str] | None = None,
        *,
        name: str | None = None,
        input: str | None = None,  # noqa: A002 - the API's name
        output: str | None = None,
        tokens: Callable[[str], int] | None = None,
    ) -> None:
        if template is not None and not callable(template):
            raise SignatureError(f"Chat: template must be callable with a list of messages, not {template!r}")
        documents = template is None
        super().__init__(model, name=name, input=input, output=output, tokens=tokens, documents=documents)
        self._template = template

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        return {"chat/completions": Endpoint(self.answer)}

    async def answer(self, body: Body, ctx: Context) -> Document | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        run = self._run(body)
        check_once(body)
        body.refuse({"logprobs": (False,), "top_logprobs": (0,), "response_format": ({"type": "text"},)})
        body.refuse({"tools": (), "functions": (), "tool_choice": ("none", "auto"), "function_call": ("none", "auto")})
        body.refuse({"modalities": (["text"],)})
        stop_texts(body)
        head = {"id": self.new_id("chatcmpl"), "created": int(time.time()), "model": self.name}
        if streams(body):
            return self._events(run, {"object": "chat.completion.chunk", **head}, body, ctx)
        await self.complete(run, body, ctx)
        message = {"role": "assistant", "content": run.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": run.reason}
        return {"object": "chat.completion", **head, "choices": [choice], "usage": self.usage([run])}

    async def _events(self, run: Run, head: dict[str, Any], body: Body, ctx: Context) -> AsyncGenerator[Part, None]:
        with_usage = wants_usage(body)
        extra = {"usage": None} if with_usage else {}

        def event(delta: dict[str, Any], reason: str | None = None) -> Document:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            return {**head, "choices": [choice], **extra}

        role = event({"role": "assistant", "content": ""})
        begun = False
        parts = self.parts(run, body, ctx, lambda text: event({"content": text}), retain=self.counts(with_usage))
        async with aclosing(parts):
            async for part in parts:
                # Only when there is text: a model that fails before it still determines the status.
                yield part if begun or not isinstance(part, list) else [role, *part]
                begun = True
        last = [event({} if begun else {"role": "assistant", "content": ""}, run.reason)]
        yield End([*last, {**head, "choices": [], "usage": self.usage([run])}] if with_usage else last)

    def _run(self, body: Body) -> Run:
        messages = body.needed("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused("'messages' must be a list of one message at least", "messages")
        for index, one in enumerate(messages):
            if not isinstance(one, dict) or not isinstance(one.get("role"), str):
                raise Refused(f"'messages[{index}]' must be an object with a 'role'", f"messages[{index}]")
        if self._template is None:
            return Run(json.dumps(messages, ensure_ascii=False), "\n".join(map(_message_text, messages)))
        plain = [{**one, "content": _content(one.get("content"), f"messages[{i}]")} for i, one in enumerate(messages)]
        return Run(self._template(plain))


def _content(content: Any, where: str) -> str:
    """Checks a message's content, a text or a list of parts. Returns its text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Refused(f"'{where}.content' must be a string or a list of parts", f"{where}.content")
    texts = [one.get("text") if isinstance(one, dict) and one.get("type") == "text" else None for one in content]
    if not all(isinstance(one, str) for one in texts):
        raise Refused(f"'{where}.content' has a part that is not text, which is not supported here", f"{where}.content")
    return "".join(str(one) for one in texts)


def _message_text(message: Message) -> str:
    """Returns the text parts of a message, joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(one["text"]) for one in content if isinstance(one, dict) and "text" in one)
    return content if isinstance(content, str) else ""
