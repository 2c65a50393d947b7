"""Members of chats about tools and the form of the answer: `tools`, `tool_choice`, `response_format`."""

from __future__ import annotations

import re
from typing import Any

from penstock.openai._errors import Refused

__all__ = ["check_choice", "check_name", "check_response_format", "check_tools"]

MOST_TOOLS = 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_FORMATS = ("text", "json_object", "json_schema")


def check_name(name: Any, where: str) -> None:
    """Checks the name of a tool or of a schema."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"'{where}' must be a name of 1 to 128 letters, digits, '_', '-' and '.'", where)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"'{where}' must be an object", where)
    return value


def check_tools(tools: Any) -> None:
    """Checks a list of functions, each with a name and a JSON schema of its parameters."""
    if not isinstance(tools, list):
        raise Refused("'tools' must be a list", "tools")
    if len(tools) > MOST_TOOLS:
        raise Refused(f"'tools' has {len(tools)} tools, expected {MOST_TOOLS} at most", "tools")
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        kind = _object(tool, where).get("type")
        if kind != "function":
            raise Refused(f"'{where}.type' is {kind!r}, expected 'function'", f"{where}.type")
        function = _object(tool.get("function"), f"{where}.function")
        check_name(function.get("name"), f"{where}.function.name")
        for name, type_, expected in (("description", str, "a string"), ("parameters", dict, "an object")):
            if not isinstance(function.get(name), type_ | None):
                raise Refused(f"'{where}.function.{name}' must be {expected}", f"{where}.function.{name}")


def check_choice(choice: Any, tools: list[Any]) -> None:
    """Checks which tools the model may or must call: one of those of the request."""
    if choice in ("none", "auto"):
        return
    if not tools:
        raise Refused("'tool_choice' needs 'tools'", "tool_choice")
    if choice == "required":
        return
    if not isinstance(choice, dict) or choice.get("type") != "function":
        raise Refused(
            "'tool_choice' must be 'none', 'auto', 'required', or an object of the type 'function' with its name",
            "tool_choice",
        )
    name = _object(choice.get("function"), "tool_choice.function").get("name")
    names = [tool["function"]["name"] for tool in tools]
    if name not in names:
        where = "tool_choice.function.name"
        raise Refused(f"'{where}' is {name!r}, expected one of the tools: {', '.join(names)}", where)


def check_response_format(form: Any) -> None:
    """Checks the form of the answer: text, a JSON object, or JSON of a schema."""
    kind = _object(form, "response_format").get("type")
    if kind not in _FORMATS:
        expected = ", ".join(map(repr, _FORMATS))
        raise Refused(f"'response_format.type' is {kind!r}, expected one of {expected}", "response_format.type")
    if kind == "json_schema":
        schema = _object(form.get("json_schema"), "response_format.json_schema")
        check_name(schema.get("name"), "response_format.json_schema.name")
        _object(schema.get("schema"), "response_format.json_schema.schema")
