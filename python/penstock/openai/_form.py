"""Request bodies that are forms: fields as members, and files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput
from penstock.openai._body import Body
from penstock.openai._errors import Refused

if TYPE_CHECKING:
    from penstock._core import Request
    from penstock._handler.forms import FormPart

__all__ = ["Form"]

_NAMES = {str: "text", bool: "'true' or 'false'", float: "a number"}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Form(Body):
    """The form of a request.

    A field `a[]` is an item of the list `a`, a field `a[b]` the member `b` of the object `a`.

    Args:
        request: The request.
        kinds: The types of fields that are not text.

    Raises:
        Refused: not a form, or a field of the wrong type.
    """

    def __init__(self, request: Request, kinds: Mapping[str, type]) -> None:
        try:
            parts = request.form()
            members: dict[str, Any] = {}
            self._files: dict[str, FormPart] = {}
            for name, given in parts.items():
                if given[0].filename is None:
                    _place(members, name, [one.text for one in given], kinds)
                elif len(given) > 1:
                    raise Refused(f"{name!r} is {len(given)} files, expected one", name)
                else:
                    self._files[name] = given[0]
        except InvalidInput as error:
            raise Refused(str(error)) from None
        super().__init__(json.dumps(members).encode())

    def file(self, name: str) -> FormPart:
        """A required file."""
        if (found := self._files.get(name)) is not None:
            return found
        if self.get(name, object, None) is not None:
            raise Refused(f"{name!r} must be a file, with a file name, not a field", name)
        raise Refused(f"{name!r} is missing: a file", name)


def _place(members: dict[str, Any], name: str, texts: list[str], kinds: Mapping[str, type]) -> None:
    base, bracket, inner = name.partition("[")
    if bracket and not inner.endswith("]"):
        raise Refused(f"{name!r} is not a name: expected a closing bracket", name)
    if bracket and inner == "]":
        members.setdefault(base, [])
        if not isinstance(members[base], list):
            raise Refused(f"{base!r} is both a field and a list", base)
        members[base].extend(texts)
        return
    if len(texts) > 1:
        raise Refused(f"{name!r} is given {len(texts)} times, expected once", name)
    value = _converted(name, texts[0], kinds.get(name))
    if not bracket:
        if name in members:
            raise Refused(f"{name!r} is both a field and a list", name)
        members[name] = value
        return
    members.setdefault(base, {})
    if not isinstance(members[base], dict):
        raise Refused(f"{base!r} is both a field and an object", base)
    members[base][inner[:-1]] = value


def _converted(name: str, text: str, kind: type | None) -> Any:
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind is float:
            number = float(text)
            if not math.isfinite(number):
                raise ValueError
            return number
    except (KeyError, ValueError):
        raise Refused(f"{name!r} must be {_NAMES[kind or str]}, not {text[:100]!r}", name) from None
    return text
