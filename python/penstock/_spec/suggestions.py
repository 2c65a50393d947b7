"""Hints for names that are not known: the nearest known one, or what another product's name is called here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

__all__ = ["nearest", "suggest_keywords", "suggestion"]

P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that is most similar; None if none is similar.

    Args:
        name: The unknown name.
        known: The known names.
        cutoff: Least similarity, from 0 to 1.
    """
    # Imported where a name is wrong only.
    import difflib

    names = list(known)
    # Long texts are not misspelled names, and are slow to compare.
    found = difflib.get_close_matches(name, names, n=1, cutoff=cutoff) if len(name) <= 256 else []
    if not found:
        folded = {one.lower().replace("-", "_"): one for one in names}
        found = [folded[key]] if (key := name.lower().replace("-", "_")) in folded else []
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`, did you mean ...?` if a known name is similar, else an empty text."""
    near = nearest(name, known)
    return "" if near is None else f", did you mean {near!r}?"


def suggest_keywords(owner: str, other_names: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a constructor: the error of an unknown keyword names the keyword that is meant.

    Args:
        owner: Name of the class, for the message.
        other_names: Keywords that are expected under another name.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in inspect.signature(function).parameters if name != "self"]

        @functools.wraps(function)
        def checked(*args: P.args, **keywords: P.kwargs) -> R:
            for name in keywords:
                if name not in known:
                    meant = other_names.get(name) or nearest(name, known)
                    hint = f", did you mean {meant!r}?" if meant else f"; it has {', '.join(known)}"
                    raise TypeError(f"{owner} has no option {name!r}{hint}")
            return function(*args, **keywords)

        return checked

    return decorate
