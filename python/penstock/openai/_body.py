"""The body of a request, looked at member by member."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock._handler.json_text import find_surrogate, surrogate_message
from penstock.openai._errors import Refused

__all__ = ["Body"]

T = TypeVar("T")

_NAMES = {bool: "a boolean", int: "an integer", str: "a string", dict: "an object", list: "a list"}


class Body:
    """A JSON object.

    Raises:
        Refused: it is none, or where a member is asked for, that is not what it should be.
    """

    def __init__(self, text: bytes) -> None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(f"The body is no JSON: {error}") from None
        if not isinstance(said, dict):
            raise Refused("The body must be a JSON object")
        if (place := find_surrogate(text, said)) is not None:
            raise Refused(surrogate_message(place), place)
        self._said: Mapping[str, Any] = said

    def needed(self, name: str) -> Any:
        """A member that must be there."""
        value = self._said.get(name)
        if value is None:
            raise Refused(f"{name!r} is missing", name)
        return value

    def get(self, name: str, kind: type[T], default: T) -> T:
        """A member of a type, or the default if it is left out or null."""
        value = self._said.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise Refused(f"{name!r} must be {_NAMES[kind]}", name)
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """A member that is a string, or a list of them."""
        value = self.needed(name)
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts:
            raise Refused(f"{name!r} must be a string or a list of strings, of one at least", name)
        if not all(isinstance(text, str) for text in texts):
            raise Refused(f"{name!r} must be text here: a string or a list of strings, not tokens", name)
        if len(texts) > most:
            raise Refused(f"{name!r} has {len(texts)} strings, expected {most} at most", name)
        return texts

    def refuse(self, names: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuses members that ask for what is not there, unless they are null, empty or one of these values."""
        for name, allowed in names.items():
            value = self._said.get(name)
            if value in (None, [], {}) or any(value == one and type(value) is type(one) for one in allowed):
                continue
            expected = f" other than {' or '.join(json.dumps(one) for one in allowed)}" if allowed else ""
            raise Refused(f"{name!r}{expected} is not supported here", name)

    def rest(self, known: frozenset[str]) -> dict[str, bool | int | float | str]:
        """The other members, which go to the model as parameters: numbers, strings and booleans."""
        found: dict[str, bool | int | float | str] = {}
        for name, value in self._said.items():
            if name in known or value in (None, [], {}):
                continue
            if not isinstance(value, bool | int | float | str):
                raise Refused(f"{name!r} is not supported here: a parameter is a number, a string or a boolean", name)
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise Refused(f"{name!r} is beyond 64 bits", name)
            found[name] = value
        return found
