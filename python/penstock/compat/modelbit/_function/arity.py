"""Arity of a function: the number of arguments that a row may have."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection
from typing import Any

from penstock.compat.modelbit._request import Calls
from penstock.compat.modelbit.errors import RequestError

__all__ = ["Arity"]


class Arity:
    """The number of positional arguments of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):  # Built-in functions may have no signature.
            self._least, self._most, self._names = 0, sys.maxsize, ""
            return
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._least = sum(one.default is one.empty for one in positional)
        is_variadic = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self._most = sys.maxsize if is_variadic else len(positional)
        self._names = f" ({', '.join(one.name for one in positional)})" if positional else ""

    def check(self, calls: Calls) -> Collection[int]:
        """Returns the distinct lengths of the rows, each with its id.

        Raises:
            RequestError: a row has too many or too few arguments.
        """
        lengths = {*map(len, calls.rows)}
        if lengths and not self._least < min(lengths) <= max(lengths) <= self._most + 1:
            for index, row in enumerate(calls.rows):
                self._check(len(row) - 1, calls, index)
        return lengths

    def _check(self, count: int, calls: Calls, index: int) -> None:
        if self._least <= count <= self._most:
            return
        if self._least == self._most:
            expected = str(self._least)
        elif self._most == sys.maxsize:
            expected = f"{self._least} or more"
        else:
            expected = f"{self._least} to {self._most}"
        noun = "argument" if expected == "1" else "arguments"
        hint = "; the first value of each row is its id" if calls.batch else ""
        raise RequestError(
            f"{calls.location(index)}got {count}, but function {self.name} takes {expected} {noun}{self._names}{hint}"
        )
