"""Request bodies: members and their checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._handler.json_text import find_surrogate, surrogate_message
from penstock.openai._errors import Refused

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Body"]

T = TypeVar("T")

_NAMES = {bool: "a boolean", int: "an integer", str: "a string", dict: "an object", list: "a list"}


class Body:
    """The JSON object of a request body.

    Raises:
        Refused: not a JSON object, or a member that is missing or of the wrong type.
    """

    def __init__(self, text: bytes) -> None:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(f"The body is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise Refused("The body must be a JSON object")
        if (path := find_surrogate(text, document)) is not None:
            raise Refused(surrogate_message(path), path)
        self._document: Mapping[str, Any] = document
        self._prefix = ""

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "") -> Self:
        """An object that was read already, which is the member `where` of a body."""
        made = cls.__new__(cls)
        made._document, made._prefix = document, f"{where}." if where else ""
        return made

    def where(self, name: str) -> str:
        """The path of a member in the body."""
        return self._prefix + name

    def needed(self, name: str) -> Any:
        """A required member."""
        value = self._document.get(name)
        if value is None:
            raise Refused(f"'{self.where(name)}' is missing", self.where(name))
        return value

    def get(self, name: str, kind: type[T], default: T) -> T:
        """A member of a type; the default if it is missing or null."""
        value = self._document.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind not in (bool, object) and isinstance(value, bool)):
            raise Refused(f"'{self.where(name)}' must be {_NAMES[kind]}", self.where(name))
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """A member that is a string, or a list of strings."""
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
        """Refuses members for unsupported features, unless they are null, empty or one of the given values."""
        for name, allowed in names.items():
            value = self._document.get(name)
            if value in (None, [], {}) or any(value == one and type(value) is type(one) for one in allowed):
                continue
            expected = f" other than {' or '.join(json.dumps(one) for one in allowed)}" if allowed else ""
            raise Refused(f"{name!r}{expected} is not supported here", name)

    def rest(self, known: frozenset[str]) -> dict[str, bool | int | float | str]:
        """The other members, which become parameters of the model: numbers, strings and booleans."""
        found: dict[str, bool | int | float | str] = {}
        for name, value in self._document.items():
            if name in known or value in (None, [], {}):
                continue
            if not isinstance(value, bool | int | float | str):
                raise Refused(f"{name!r} is not supported here: a parameter is a number, a string or a boolean", name)
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise Refused(f"{name!r} does not fit 64 bits", name)
            found[name] = value
        return found
