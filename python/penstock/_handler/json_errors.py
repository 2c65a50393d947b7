"""Messages for JSON documents that msgspec refuses: the input, the path in it, the value, and the expectation."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock._handler import json_schema
from penstock.errors import InvalidInput, PenstockError

__all__ = ["one_line", "refusal", "unexpected"]

_MAX_SHOWN = 40
_MAX_SECONDS = 0.05
"""Time for the search of names in a path. After it the path ends before the name."""
_MESSAGE = re.compile(r"(?P<text>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected (?P<expected>.*?)(?:, got .*)?", re.DOTALL)
_PLAIN_NAME = re.compile(r"[\w-]+")
_INDEX = re.compile(r"\[(\d+)\]")
_WORDS = {
    "array": "an array",
    "bool": "true or false",
    "bytes": "a string of base64",
    "date": "a date",
    "datetime": "a date and time",
    "decimal": "a decimal number",
    "float": "a number",
    "int": "an integer",
    "object": "an object",
    "str": "a string",
    "uuid": "a UUID",
}


def unexpected(name: str, steps: Sequence[Any], field: str, known: Sequence[str]) -> InvalidInput:
    """The error for a field that a class does not have."""
    expected = ", ".join(map(repr, known)) or "none"
    return InvalidInput(f"input {_path(name, steps)!r}: unexpected field {_cut(repr(field))}, expected {expected}")


def refusal(
    error: msgspec.ValidationError, name: str, value: Any, schema: json_schema.Schema, fails_alike: Callable[[], bool]
) -> BaseException:
    """The error for a value that is not of its hint's type; what a class raised on purpose or by a defect, unchanged.

    Args:
        error: What msgspec raised.
        name: The input's name.
        value: The whole value, as parsed JSON. It is changed.
        schema: The schema of the value.
        fails_alike: True if conversion of `value` still ends in this error.
    """
    if isinstance(error.__cause__, (TypeError, PenstockError)):
        return error.__cause__
    match = _MESSAGE.fullmatch(str(error))
    text, path = (match["text"], match["path"] or "") if match else (str(error), "")
    steps, found = _locate(value, path, fails_alike, time.monotonic() + _MAX_SECONDS)
    where = f"input {_path(name, steps)!r}"
    if error.__cause__ is not None:
        # A class refused its values.
        return InvalidInput(f"{where}: {one_line(error.__cause__)}")
    if text.startswith("Object missing"):
        return InvalidInput(f"{where}: field {text.split('`')[1]!r} is missing")
    if text.startswith("Object contains"):
        return InvalidInput(f"{where}: unexpected field {_cut(repr(text.split('`', 1)[1][:-1]))}")
    choices, only = json_schema.choices(schema, steps)
    if choices and (only or text.startswith("Invalid enum value")):
        text = f"Expected one of {', '.join(map(json.dumps, choices))}"
    expected = _EXPECTED.fullmatch(text)
    if expected is None:
        return InvalidInput(f"{where}: got {_show(found)}, {text[:1].lower()}{text[1:]}")
    return InvalidInput(f"{where}: got {_show(found)}, expected {re.sub('`(.*?)`', _in_words, expected['expected'])}")


def one_line(error: BaseException) -> str:
    """The text of an error in one line."""
    # The text of a pydantic error has several lines and a URL.
    if callable(details := getattr(error, "errors", None)):
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}".removeprefix(": ") for item in details()[:4]]
        return "; ".join(lines)
    return " ".join(str(error).split()) or type(error).__name__


def _locate(value: Any, path: str, fails_alike: Callable[[], bool], deadline: float) -> tuple[list[Any], Any]:
    """The steps of a path of msgspec, and the value there. Its path has `[...]` for each name in a dict."""
    steps: list[Any] = []
    while path:
        step: Any
        if isinstance(value, dict) and path.startswith("[...]"):
            step, length = _guilty_name(value, fails_alike, deadline), len("[...]")
            if step is None:
                break
        elif isinstance(value, dict) and (names := [name for name in value if path.startswith(f".{name}")]):
            # The longest, since names may have dots.
            step = max(names, key=len)
            length = len(step) + 1
        elif isinstance(value, list) and (index := _INDEX.match(path)):
            step, length = int(index[1]), len(index[0])
        else:
            break
        steps.append(step)
        value, path = value[step], path[length:]
    return steps, value


def _guilty_name(members: dict[str, Any], fails_alike: Callable[[], bool], deadline: float) -> str | None:
    """The first name whose value is refused; None after the deadline.

    Only this member is left, so that a path below it is the same.
    """
    entries = list(members.items())
    low, high = 1, len(entries)
    while low < high:
        if time.monotonic() > deadline:
            return None
        middle = (low + high) // 2
        members.clear()
        members.update(entries[:middle])
        if fails_alike():
            high = middle
        else:
            low = middle + 1
    members.clear()
    members.update([entries[low - 1]])
    return entries[low - 1][0]


def _path(name: str, steps: Sequence[Any]) -> str:
    return name + "".join(f"[{step}]" if isinstance(step, int) else _name(step) for step in steps)


def _name(step: str) -> str:
    return f".{_cut(step)}" if _PLAIN_NAME.fullmatch(step) else f"[{_show(step)}]"


def _show(value: Any) -> str:
    if isinstance(value, str):
        return _cut(json.dumps(value[: _MAX_SHOWN + 1], ensure_ascii=False))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _in_words(match: re.Match[str]) -> str:
    names = match[1].split(" | ")
    return " or ".join(_WORDS.get(name, name) for name in names)
