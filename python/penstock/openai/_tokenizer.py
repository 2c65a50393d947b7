"""`Tokenizer`: the tokens of a text, and the text of tokens."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import SignatureError
from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._served import Endpoint, Served
from penstock.openai._tensors import as_model

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["Tokenizer"]

SPECIAL = "add_special_tokens"
LARGEST_TOKEN = 2**32
ASKED_FOR_MESSAGES = {"add_generation_prompt": (True,), "continue_final_message": (False,), "tools": ()}
"""Members for messages that the template decides, each with the values that change nothing."""


class Tokenizer(Served):
    """Serves the tokenizer of a model at `/tokenize` and `/detokenize`, for clients of vLLM.

    Args:
        model: The model that has these tokens. It is not called; clients that may not use it may not use this.
        encode: Returns the token ids of a text. If it has the keyword `add_special_tokens`, requests may set that.
        decode: Returns the text of token ids; without it there is no `/detokenize`.
        template: Converts messages to a prompt, as for `Chat`; without it requests have a prompt only.
        max_model_len: Longest input of the model in tokens, for responses.
        name: The `model` in requests; default: the model's name.

    Raises:
        SignatureError: a function is not callable.

    Example:
        >>> tokens = openai.Tokenizer(complete, tokenizer.encode, tokenizer.decode, max_model_len=4096)
        >>> serve(complete, openai.routes(openai.Completions(complete), tokens))
    """

    example: ClassVar[dict[str, Any]] = {"prompt": "Hello"}

    def __init__(
        self,
        model: Any,
        encode: Callable[..., Iterable[int]],
        decode: Callable[[list[int]], str] | None = None,
        *,
        template: Callable[[list[dict[str, Any]]], str] | None = None,
        max_model_len: int | None = None,
        name: str | None = None,
    ) -> None:
        for what, function in (("encode", encode), ("decode", decode), ("template", template)):
            if not callable(function) and (what == "encode" or function is not None):
                raise SignatureError(f"Tokenizer: {what} must be callable, not {function!r}")
        self.model = as_model(model, "Tokenizer")
        self.name = self.model.name if name is None else name
        self._encode, self._decode, self._template, self._longest = encode, decode, template, max_model_len
        self._takes_special = _has_keyword(encode, SPECIAL)

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        found = {"tokenize": Endpoint(self.tokenize)}
        if self._decode is not None:
            found["detokenize"] = Endpoint(self.detokenize)
        return {**found, **{f"/{path}": endpoint for path, endpoint in found.items()}}

    async def tokenize(self, body: Body, ctx: Context) -> dict[str, Any]:
        """Returns the tokens of a prompt, or of messages."""
        has_messages = body.get("messages", object, None) is not None
        prompt = self._prompt(body) if has_messages else _text(body)
        body.refuse({"return_token_strs": (False,)})
        # Templates write the special tokens themselves.
        options = {SPECIAL: body.get(SPECIAL, bool, not has_messages)} if self._takes_special else {}
        if not self._takes_special:
            body.refuse({SPECIAL: (not has_messages,)})
        # Long texts take a while, and the event loop of the routes has other requests.
        tokens = [int(one) for one in await asyncio.to_thread(self._encode, prompt, **options)]
        return {"count": len(tokens), "max_model_len": self._longest, "tokens": tokens, "token_strs": None}

    async def detokenize(self, body: Body, ctx: Context) -> dict[str, Any]:
        """Returns the text of tokens."""
        given = body.needed("tokens")
        if not isinstance(given, list):
            raise Refused("'tokens' must be a list of token ids", "tokens")
        for index, one in enumerate(given):
            if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < LARGEST_TOKEN:
                where = f"tokens[{index}]"
                raise Refused(f"'{where}' must be a token id, an integer of 0 or more", where)
        decode: Any = self._decode
        try:
            return {"prompt": await asyncio.to_thread(decode, given)}
        except (LookupError, OverflowError, ValueError) as error:
            raise Refused(f"'tokens' has an id that is not a token of model {self.name!r}", "tokens") from error

    def _prompt(self, body: Body) -> str:
        if body.get("prompt", object, None) is not None:
            raise Refused("there must be either 'prompt' or 'messages', not both", "messages")
        if self._template is None:
            raise Refused(f"'messages' is not supported for model {self.name!r}: pass 'prompt'", "messages")
        body.refuse(ASKED_FOR_MESSAGES)
        messages = body.get("messages", list, [])
        for index, one in enumerate(messages):
            if not isinstance(one, dict) or not isinstance(one.get("role"), str):
                raise Refused(f"'messages[{index}]' must be an object with a 'role'", f"messages[{index}]")
        plain = [{**one, "content": _content(one.get("content"), f"messages[{i}]")} for i, one in enumerate(messages)]
        return self._template(plain)


def _text(body: Body) -> str:
    body.needed("prompt")
    return body.get("prompt", str, "")


def _content(content: Any, where: str) -> str:
    """The text of a message: a text, or parts that are texts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [None]
    texts = [one.get("text") if isinstance(one, dict) else None for one in parts]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(f"'{where}.content' must be a string or a list of texts", f"{where}.content")
    return "".join(map(str, texts))


def _has_keyword(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except ValueError:
        # Some compiled functions have no signature.
        return False
