"""Single options of a model: read and checked."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from penstock.errors import SignatureError
from penstock.scheduling import Queueing, Sequences

T = TypeVar("T")


def checked_option(value: object, kind: type[T], what: str) -> T | None:
    """An option that is of that kind, or left out.

    Raises:
        SignatureError: it is something else.
    """
    if value is None or isinstance(value, kind):
        return value
    raise SignatureError(f"{what} must be a {kind.__name__}, not {value!r}")


def check_sequences(sequences: Sequences | None, queueing: Queueing | None, *, context: bool, where: str) -> None:
    """Checks that a model can keep sequences as it is declared; `context` is whether its handler takes one.

    Raises:
        SignatureError: it cannot.
    """
    if sequences is None:
        return
    if not context:
        raise SignatureError(f"{where}: a model with sequences takes `ctx: Context`, where their state is")
    if queueing is not None and queueing.priorities > 1:
        raise SignatureError(f"{where}: sequences are computed in order of arrival, so they have no priorities")


def description_of(given: object, target: Any, method: str, where: str) -> str:
    """What the author says of a model, or else what its docstring does.

    Raises:
        SignatureError: it is no text.
    """
    from penstock._hints import own_doc, plain_function

    if given is not None:
        if not isinstance(given, str):
            raise SignatureError(f"{where}: description must be text, not {given!r}")
        return inspect.cleandoc(given)
    # Of the class itself: a base's docstring is of something more general.
    return (own_doc(target) or own_doc(getattr(target, method))) if method else own_doc(plain_function(target))
