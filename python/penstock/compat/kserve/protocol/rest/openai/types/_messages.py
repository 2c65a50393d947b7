"""Messages of a chat: dicts whose members are attributes too, for scripts of both versions of KServe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve.protocol.rest.openai.types._parsing import Problem

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AssistantMessage", "FunctionMessage", "Message", "SystemMessage", "ToolMessage", "UserMessage"]

# Optional members, None as attributes.
_ABSENT = ("content", "function_call", "name", "tool_call_id", "tool_calls")


class Message(dict[str, Any]):
    """A message: `message["content"]` and `message.content`."""

    def __getattr__(self, name: str) -> Any:
        if name in self or name in _ABSENT:
            return self.get(name)
        raise AttributeError(f"a message has no {name!r}, only {', '.join(self)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @property
    def root(self) -> Self:
        """The message itself."""
        return self

    def model_dump(self, *, exclude_none: bool = False, **_: Any) -> dict[str, Any]:
        """Returns the message as a plain dict."""
        return {name: value for name, value in self.items() if not (exclude_none and value is None)}

    @classmethod
    def _read(cls, value: Any, problems: list[Problem], where: tuple[str | int, ...]) -> Any:
        if hasattr(value, "model_dump") and not isinstance(value, Mapping):
            value = value.model_dump(exclude_none=True)
        if not isinstance(value, Mapping):
            problems.append(Problem("dict_type", where, "Input should be a valid dictionary", value))
            return value
        if not isinstance(value.get("role"), str):
            problems.append(Problem("missing", (*where, "role"), "Field required", dict(value)))
        return value if isinstance(value, Message) else _BY_ROLE.get(value.get("role", ""), Message)(value)


class SystemMessage(Message):
    """Instructions for the model."""


class UserMessage(Message):
    """The user's message: text, or a list of parts."""


class AssistantMessage(Message):
    """An earlier message of the model."""


class ToolMessage(Message):
    """The result of a tool."""


class FunctionMessage(Message):
    """The result of a function."""


_BY_ROLE: dict[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
}
