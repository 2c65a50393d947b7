"""Open models: their handlers take requests as they are. How they are recognised, and which options go with them."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _hints
from penstock._options import checked_name, checked_option
from penstock.batching import Batching
from penstock.errors import SignatureError
from penstock.fallback import Fallback

if TYPE_CHECKING:
    import inspect

    from penstock._model_options import ModelOptions

_ONE = ("Request", "penstock.Request")
_MANY = re.compile(r"(?:list|List|Sequence|typing\.\w+)\[\s*(?P<item>[\w.]+)\s*\]")

_NEEDS_TENSORS = {
    "sequences": "state of a sequence is for models that declare their inputs",
    "cache": "which requests are equal is known of declared inputs only",
    "warmup": "there are no declared inputs to make samples for; warm up where the handler is built",
}
"""The options that say something of declared tensors, and why they do not go with requests as they are."""

_JOINS: dict[str, object] = {"sizes": (), "cost": None, "window": None, "split_on_memory": False}
"""What a batching says of joined rows, and how it is left out."""


def takes_requests(hints: Mapping[str, Any]) -> bool:
    """Whether a handler with these annotations takes requests as they are."""
    return any(_kind(hint) for name, hint in hints.items() if name != "return")


def request_of(
    parameters: Mapping[str, inspect.Parameter], hints: dict[str, Any], where: str, *, batched: bool
) -> str | None:
    """The parameter that takes the request, or the list of them; None for a handler that takes tensors.

    Args:
        parameters: The handler's parameters by name, without the context.
        hints: Its annotations.
        where: The beginning of messages.
        batched: Whether several requests share a call.

    Raises:
        SignatureError: it takes a request, and not as it would be called.
    """
    kinds = {name: kind for name in parameters if (kind := _kind(hints.get(name)))}
    if not kinds:
        return None
    name, kind = next(iter(kinds.items()))
    for other, one in parameters.items():
        if other != name and one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise SignatureError(
                f"{where}: parameter {other!r} stands beside {name!r}, which is the whole request; "
                "only a `ctx: Context` can"
            )
    if batched and kind == "one":
        raise SignatureError(f"{where}: parameter {name!r} must be list[Request]: with batching= requests share a call")
    if not batched and kind == "many":
        raise SignatureError(f"{where}: parameter {name!r} is a list of requests, which needs batching=")
    return name


def read_routes(options: ModelOptions, batching: Batching | None, where: str, *, is_open: bool) -> tuple[str, ...]:
    """The paths of a model's own, as they are declared, once its options are found to go with how it takes requests.

    Raises:
        SignatureError: they do not.
    """
    routes = options.get("routes")
    if is_open:
        _check_options(options, batching, f"{where}: the handler takes requests as they are, and")
    else:
        for name in ("routes", "lenient", "fallback"):
            if options.get(name) not in (None, False):
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
    """What answers where this model does not.

    Raises:
        SignatureError: it cannot be had for such a model.
    """
    fallback = checked_option(options.get("fallback"), Fallback, f"{where}: fallback")
    if fallback is None:
        return None
    if not routes or streams:
        why = "is for a model with routes=" if not routes else "does not go with an answer in pieces"
        raise SignatureError(f"{where}: fallback= {why}")
    # As a name of a model with routes may begin.
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


def _kind(hint: Any) -> str | None:
    """Whether a hint is one request, or many of them."""
    if isinstance(hint, str):
        many = _MANY.fullmatch(hint)
        if many is not None:
            return "many" if many["item"] in _ONE else None
        return "one" if hint in _ONE else None
    if _is_request(hint):
        return "one"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    is_list = origin is list or (isinstance(origin, type) and issubclass(origin, Sequence))
    if is_list and arguments and (_is_request(arguments[0]) or _text(arguments[0]) in _ONE):
        return "many"
    return None


def _text(hint: Any) -> Any:
    """The text of a hint that cannot be resolved."""
    return hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint


def _is_request(hint: Any) -> bool:
    # If the compiled part is not loaded, nobody can have named its class.
    core = sys.modules.get("penstock._core")
    return core is not None and _hints.unaliased(hint) is getattr(core, "Request", None)
