"""How many arguments a function takes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection
from typing import Any

from penstock.compat.modelbit._request import Calls
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Takes"]


class Takes:
    """How many arguments a function takes by position."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):  # Of built-in functions nothing is known.
            self._least, self._most, self._names = 0, sys.maxsize, ""
            return
        by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._least = sum(one.default is one.empty for one in by_place)
        is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self._most = sys.maxsize if is_open else len(by_place)
        self._names = f" ({', '.join(one.name for one in by_place)})" if by_place else ""

    def check(self, calls: Calls) -> Collection[int]:
        """The lengths of the calls' rows: each that there is.

        Raises:
            BadCall: one has too many or too few.
        """
        lengths = {*map(len, calls.rows)}
        if lengths and not self._least < min(lengths) <= max(lengths) <= self._most + 1:
            for place, row in enumerate(calls.rows):
                self._check(len(row) - 1, calls, place)
        return lengths

    def _check(self, given: int, calls: Calls, place: int) -> None:
        if self._least <= given <= self._most:
            return
        if self._least == self._most:
            wanted = str(self._least)
        elif self._most == sys.maxsize:
            wanted = f"{self._least} or more"
        else:
            wanted = f"{self._least} to {self._most}"
        noun = "argument" if wanted == "1" else "arguments"
        hint = "; the first value of each row is its id" if calls.batch else ""
        raise BadCall(
            f"{calls.where(place)}got {given}, but function {self.name} takes {wanted} {noun}{self._names}{hint}"
        )
