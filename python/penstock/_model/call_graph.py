"""Declared calls between models: checks and order, before any model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

T = TypeVar("T")

__all__ = ["check", "names_of", "ordered"]


def names_of(value: Any, where: str, *, processes: bool) -> tuple[str, ...] | None:
    """The models that a handler declares to call; None if it declares nothing.

    Raises:
        SignatureError: not a list of names, or the handler runs in a process, which cannot call models.
    """
    if value is None:
        return None
    names = () if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or not all(isinstance(one, str) and one for one in names):
        raise SignatureError(f"{where}: calls must be a list of names of models, not {value!r}")
    if names and processes:
        raise SignatureError(
            f"{where}: a process of its own cannot call models: give it instances=Threads(n), "
            "or have a Pipeline call both"
        )
    return names


def ordered(items: Sequence[T], name: Callable[[T], str], calls: Callable[[T], Sequence[str]]) -> list[T]:
    """The items, each after those that it calls, otherwise in the given order.

    Raises:
        SignatureError: they call each other in a circle.
    """
    _refuse_circles({name(one): calls(one) for one in items})
    found: list[T] = []
    left = list(items)
    while left:
        waiting = {name(one) for one in left}
        ready = [one for one in left if not waiting & set(calls(one))]
        found += ready
        left = [one for one in left if not any(one is other for other in ready)]
    return found


def check(definitions: Sequence[Definition], *, all_known: bool) -> list[Definition]:
    """Checks declared calls. Returns the models, each after those that it calls.

    Args:
        definitions: The models.
        all_known: Whether there are no other models, in repositories.

    Raises:
        SignatureError: a circle of calls, or a call of a model that is missing or cannot be called.
    """
    calls: dict[str, list[str]] = {}
    for one in definitions:
        calls.setdefault(one.name, []).extend(one.calls or ())
    for one in definitions:
        for other in one.calls or ():
            _check_callable(one.name, other, [known for known in definitions if known.name == other], all_known)
    return (
        ordered(definitions, lambda one: one.name, lambda one: calls[one.name])
        if any(calls.values())
        else [*definitions]
    )


def _check_callable(name: str, other: str, versions: Sequence[Definition], all_known: bool) -> None:
    if not versions and all_known:
        raise SignatureError(f"model {name!r} calls {other!r}, which is not served; give it to the server too")
    if versions and all(one.sequences is not None for one in versions):
        raise SignatureError(f"model {name!r} calls {other!r}, which has sequences: only clients can call it")


def _refuse_circles(calls: Mapping[str, Sequence[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = " -> ".join(map(repr, [*path[path.index(name) :], name]))
            raise SignatureError(
                f"models call each other in a circle, and could wait for one another for ever: {circle}"
            )
        if name in done:
            return
        for other in calls.get(name, ()):
            visit(other, [*path, name])
        done.add(name)

    for name in calls:
        visit(name, [])
