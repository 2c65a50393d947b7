"""`/v1/responses`: its requests as chats. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from penstock.openai._body import Body
from penstock.openai._chats.chat_model import ChatModel
from penstock.openai._chats.response_items import as_messages
from penstock.openai._errors import OPENAI, Refused
from penstock.openai._events import Document, Part, encode
from penstock.openai._generating import Form, new_id
from penstock.openai._members import parameters

if TYPE_CHECKING:
    from penstock._core import Context

__all__ = ["RESPONSES", "Responses"]

_KNOWN = frozenset(
    {
        "background",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "store",
        "stream",
        "stream_options",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "truncation",
    }
)
_REFUSED: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    "conversation": (),
    "max_tool_calls": (),
    "previous_response_id": (),
    "prompt": (),
    "store": (False,),
    "truncation": ("disabled",),
}


def _event(body: Document) -> bytes:
    """The event of an error that comes before any other event."""
    event = {
        "type": "error",
        "sequence_number": 0,
        **{name: body["error"][name] for name in ("code", "message", "param")},
    }
    return b"event: error\ndata: %b\n\n" % encode(event)


RESPONSES = OPENAI._replace(event=_event)
"""The form of errors: those of a stream are events of a type."""
_LOGPROBS = "message.output_text.logprobs"
_INCLUDED = (_LOGPROBS, "reasoning.encrypted_content")
_ECHOED = ("instructions", "max_output_tokens", "temperature", "top_p", "reasoning", "text", "metadata", "user")


class Responses:
    """The endpoint of a chat model."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    async def answer(self, body: Body, ctx: Context) -> bytes | AsyncGenerator[Part, None]:
        """Returns the response: a document, or an iterator over the parts of a stream."""
        body.refuse(_REFUSED)
        messages = as_messages(body.needed("input"))
        if instructions := body.get("instructions", str, ""):
            messages.insert(0, {"role": "system", "content": instructions})
        given = parameters(body, _KNOWN)
        if (limit := body.get("max_output_tokens", int, None)) is not None:
            if limit < 1:
                raise Refused(f"'max_output_tokens' is {limit}, expected 1 or more", "max_output_tokens")
            given["max_tokens"] = limit
        translated = Body.of({**_members(body), **given})
        ask = self._chat.ask(messages, translated, 1, given)
        stream = body.get("stream", bool, False)
        id_ = new_id()
        form = Form("responses", self._head(body, id_), id_, stream, errors=RESPONSES)
        return await self._chat.response(ask, form, ctx)

    def _head(self, body: Body, id_: str) -> Document:
        """Members of the response that do not change."""
        echoed = {name: body.get(name, object, None) for name in _ECHOED}
        return {
            "id": f"resp_{id_}",
            "object": "response",
            "created_at": int(time.time()),
            "model": self._chat.name,
            **echoed,
            "metadata": echoed["metadata"] or {},
            "text": echoed["text"] or {"format": {"type": "text"}},
            "tools": body.get("tools", list, []),
            "tool_choice": body.get("tool_choice", object, "auto"),
            "parallel_tool_calls": body.get("parallel_tool_calls", bool, True),
            "previous_response_id": None,
            "background": False,
            "store": False,
            "truncation": "disabled",
        }


def _members(body: Body) -> Document:
    """The members of a chat about tools and the form of the answer."""
    found: Document = {}
    if tools := body.get("tools", list, []):
        found["tools"] = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    choice = body.get("tool_choice", object, None)
    if isinstance(choice, dict) and choice.get("type") == "function":
        found["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice is not None:
        found["tool_choice"] = choice
    if (parallel := body.get("parallel_tool_calls", bool, True)) is False:
        found["parallel_tool_calls"] = parallel
    form = Body.of(body.get("text", dict, {}), "text").get("format", dict, {"type": "text"})
    if form.get("type") == "json_schema":
        schema = {name: form[name] for name in ("name", "schema", "strict", "description") if name in form}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form != {"type": "text"}:
        found["response_format"] = form
    if effort := Body.of(body.get("reasoning", dict, {}), "reasoning").get("effort", str, ""):
        found["reasoning_effort"] = effort
    include = body.get("include", list, [])
    for index, one in enumerate(include):
        if one not in _INCLUDED:
            where = f"include[{index}]"
            raise Refused(f"'{where}' is {one!r}, expected {' or '.join(map(repr, _INCLUDED))}", where)
    if top := body.get("top_logprobs", int, 0):
        found |= {"logprobs": True, "top_logprobs": top}
    elif _LOGPROBS in include:
        found["logprobs"] = True
    return found


def _tool(tool: Any, where: str) -> Document:
    if not isinstance(tool, dict):
        raise Refused(f"'{where}' must be an object", where)
    if (kind := tool.get("type")) != "function":
        raise Refused(f"'{where}.type' is {kind!r}, which is not supported here: expected 'function'", f"{where}.type")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}
