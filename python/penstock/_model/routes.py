"""Options of raw-request models: routes, the fallback, and options that do not go with raw requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock._model.options import checked_name, checked_option
from penstock._spec.batching import Batching
from penstock._spec.fallback import Fallback
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._model.option_types import ModelOptions

__all__ = ["read_fallback", "read_routes"]

_NEEDS_TENSORS = {
    "sequences": "state of a sequence is for models that declare their inputs",
    "cache": "which requests are equal is known of declared inputs only",
    "warmup": "there are no declared inputs to make samples for; warm up where the handler is built",
}
"""Options that need declared tensors, and the reasons why they do not work with raw requests."""

_JOINS: dict[str, object] = {"sizes": (), "cost": None, "window": None, "retry_on_oom": False}
"""Batching options for joined rows, and their defaults."""


def read_routes(options: ModelOptions, batching: Batching | None, where: str, *, is_open: bool) -> tuple[str, ...]:
    """The declared routes of a model. Checks its options against the kind of its handler.

    Raises:
        SignatureError: an option does not fit the handler.
    """
    routes = options.get("routes")
    if is_open:
        _check_options(options, batching, f"{where}: the handler takes requests as they are, and")
    else:
        for name in ("routes", "fallback"):
            if options.get(name) is not None:
                raise SignatureError(f"{where}: {name}= is for a handler that takes `request: penstock.Request`")
    if routes is None:
        return ()
    if isinstance(routes, str) or not isinstance(routes, Iterable):
        raise SignatureError(f"{where}: routes must be a list such as ['POST /score/{{name}}'], not {routes!r}")
    given = tuple(routes)
    for one in given:
        if not isinstance(one, str):
            raise SignatureError(f"{where}: routes has {one!r}, expected a text such as 'POST /score/{{name}}'")
    return given


def read_fallback(options: ModelOptions, routes: tuple[str, ...], where: str, *, streams: bool) -> Fallback | None:
    """The fallback of a model.

    Raises:
        SignatureError: the model cannot have a fallback.
    """
    fallback = checked_option(options.get("fallback"), Fallback, f"{where}: fallback")
    if fallback is None:
        return None
    if not routes or streams:
        why = "is for a model with routes=" if not routes else "does not go with an answer in pieces"
        raise SignatureError(f"{where}: fallback= {why}")
    # The name of a model with routes may begin with a colon.
    checked_name("the fallback's name", str(fallback.model).removeprefix(":"), where)
    return fallback


def _check_options(options: ModelOptions, batching: Batching | None, where: str) -> None:
    for name, why in _NEEDS_TENSORS.items():
        if options.get(name) not in (None, False):
            raise SignatureError(f"{where} {name}= does not go with that: {why}")
    if not options.get("check_shapes", True):
        raise SignatureError(f"{where} check_shapes= does not go with that: no shapes are declared")
    for name, left_out in _JOINS.items():
        if batching is not None and getattr(batching, name) != left_out:
            raise SignatureError(f"{where} Batching({name}=...) does not go with that: rows are not joined")
