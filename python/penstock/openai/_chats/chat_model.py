"""Base of chats: their messages as prompts of a model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection
from typing import Any

from penstock.errors import SignatureError
from penstock.openai._body import Body
from penstock.openai._chats.messages import check_messages, joined, text_of
from penstock.openai._events import Document
from penstock.openai._generating import Ask, Generating
from penstock.openai._members import DECLARED, members, stops

__all__ = ["ChatModel"]


class ChatModel(Generating):
    """A model for chats, with or without a template. See `Chat`."""

    def __init__(
        self,
        model: Any,
        template: Callable[..., str] | None = None,
        *,
        name: str | None = None,
        input: str | None = None,  # noqa: A002 - the API's name
        output: str | None = None,
        tokens: Callable[[str], int] | None = None,
        accepts: Collection[str] = (),
    ) -> None:
        if template is not None and not callable(template):
            raise SignatureError(f"Chat: template must be callable with a list of messages, not {template!r}")
        documents = template is None
        super().__init__(
            model, name=name, input=input, output=output, tokens=tokens, accepts=accepts, documents=documents
        )
        self._template = template
        self._keywords = frozenset[str]() if template is None else _keywords(template) & DECLARED
        self._accepted |= self._keywords

    def ask(self, messages: Any, body: Body, count: int, given: Document) -> Ask:
        """The calls of a chat.

        Args:
            messages: The messages.
            body: Members about tools and the form of the answer, and `stop`.
            count: Number of answers.
            given: Parameters of the model.
        """
        checked = check_messages(messages, self._parts)
        found = members(body, self._accepted)
        if self._template is None:
            prompt = json.dumps(checked, ensure_ascii=False)
            counted = "\n".join(map(text_of, checked))
        else:
            keywords = {name: value for name, value in found.items() if name in self._keywords}
            counted = prompt = self._template(joined(checked), **keywords)
            if not isinstance(prompt, str):
                raise TypeError(f"the template returned {type(prompt).__name__}, expected a text")
        return Ask([prompt] * count, [counted], found, given, stops(body))

    def count_tokens(self, ask: Ask) -> int:
        """Tokens of the prompt."""
        return self._count_all(ask.counted)


def _keywords(template: Callable[..., str]) -> frozenset[str]:
    """Names of a template's keywords, without those that it takes as `**`."""
    try:
        parameters = inspect.signature(template).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return frozenset(one.name for one in parameters if one.kind in kinds)
