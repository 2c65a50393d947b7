"""`/v1/messages`, Anthropic's API: its requests as chats, and its errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from penstock.openai._body import Body
from penstock.openai._chats.anthropic_blocks import as_messages, system_text
from penstock.openai._chats.chat_model import ChatModel
from penstock.openai._errors import ErrorForm, Refused
from penstock.openai._events import Document, Part, encode
from penstock.openai._generating import Ask, Form, new_id
from penstock.openai._members import parameters, stops

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["ANTHROPIC", "Anthropic"]

_KNOWN = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
_REFUSED: dict[str, tuple[Any, ...]] = {
    "container": (),
    "context_management": (),
    "mcp_servers": (),
    "output_config": (),
    "output_format": (),
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _body(status: int, message: str, param: str | None, code: str | None) -> Document:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _event(body: Document) -> bytes:
    return b"event: error\ndata: %b\n\n" % encode(body)


ANTHROPIC = ErrorForm(_body, _event)


class Anthropic:
    """The endpoints of a chat model."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    async def answer(self, body: Body, ctx: Context) -> bytes | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        limit = body.get("max_tokens", int, 0)
        if limit < 1:
            body.needed("max_tokens")
            raise Refused(f"'max_tokens' is {limit}, expected 1 or more", "max_tokens")
        ask = self._ask(body, {"max_tokens": limit})
        id_ = new_id()
        head = {"id": f"msg_{id_}", "type": "message", "role": "assistant", "model": self._chat.name}
        stream = body.get("stream", bool, False)
        form = Form("messages", head, id_, stream, counts_prompt=True, errors=ANTHROPIC)
        return await self._chat.response(ask, form, ctx)

    async def count(self, body: Body, ctx: Context) -> Document:
        """Returns the number of tokens of a request."""
        return {"input_tokens": self._chat.count_tokens(self._ask(body, {}))}

    def _ask(self, body: Body, limits: Document) -> Ask:
        body.refuse(_REFUSED)
        messages = as_messages(body.needed("messages"))
        if system := system_text(body.get("system", object, "")):
            messages.insert(0, {"role": "system", "content": system})
        given = {**parameters(body, _KNOWN), **limits}
        translated = {**_members(body), "stop": stops(body, "stop_sequences")}
        return self._chat.ask(messages, Body.of(translated), 1, given)


def _members(body: Body) -> Document:
    """The members of a chat about tools and reasoning."""
    found: Document = {}
    if tools := body.get("tools", list, []):
        found["tools"] = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    choice = Body.of(body.get("tool_choice", dict, {}), "tool_choice")
    kind = choice.get("type", str, "")
    if kind == "tool":
        found["tool_choice"] = {"type": "function", "function": {"name": choice.needed("name")}}
    elif kind in _CHOICES:
        found["tool_choice"] = _CHOICES[kind]
    elif kind:
        expected = ", ".join([*_CHOICES, "tool"])
        raise Refused(f"'tool_choice.type' is {kind!r}, expected one of {expected}", "tool_choice.type")
    if choice.get("disable_parallel_tool_use", bool, False):
        found["parallel_tool_calls"] = False
    thinking = Body.of(body.get("thinking", dict, {}), "thinking")
    kind = thinking.get("type", str, "disabled")
    if kind == "enabled":
        thinking.get("budget_tokens", int, 0)
        found["reasoning_effort"] = "high"
    elif kind == "adaptive":
        found["reasoning_effort"] = "medium"
    elif kind != "disabled":
        raise Refused(f"'thinking.type' is {kind!r}, expected enabled, adaptive or disabled", "thinking.type")
    return found


def _tool(tool: Any, where: str) -> Document:
    if not isinstance(tool, dict):
        raise Refused(f"'{where}' must be an object", where)
    if (kind := tool.get("type", "custom")) not in ("custom", None):
        raise Refused(f"'{where}.type' is {kind!r}, which is not supported here: expected 'custom'", f"{where}.type")
    if not isinstance(schema := tool.get("input_schema"), dict):
        raise Refused(f"'{where}.input_schema' must be an object", f"{where}.input_schema")
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": schema}
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}
