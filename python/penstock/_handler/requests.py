"""Handlers of raw requests: recognition by their annotations, and checks of their parameters."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock._handler import type_hints
from penstock.errors import SignatureError

if TYPE_CHECKING:
    import inspect


_ONE = ("Request", "penstock.Request")
_MANY = re.compile(r"(?:list|List|Sequence|typing\.\w+)\[\s*(?P<item>[\w.]+)\s*\]")


def takes_requests(hints: Mapping[str, Any]) -> bool:
    """True if a handler with these annotations takes raw requests."""
    return any(_kind(hint) for name, hint in hints.items() if name != "return")


def request_of(
    parameters: Mapping[str, inspect.Parameter], hints: dict[str, Any], where: str, *, batched: bool
) -> str | None:
    """The parameter that takes the request, or the list of requests; None for a handler that takes tensors.

    Args:
        parameters: The handler's parameters by name, without the context.
        hints: Its annotations.
        where: Prefix of messages.
        batched: Whether several requests share a call.

    Raises:
        SignatureError: the handler takes requests in a form that does not fit its batching or other parameters.
    """
    kinds = {name: kind for name in parameters if (kind := _kind(hints.get(name)))}
    if not kinds:
        return None
    name, kind = next(iter(kinds.items()))
    for other, parameter in parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if other != name and parameter.default is parameter.empty and not variadic:
            raise SignatureError(
                f"{where}: parameter {other!r} cannot be filled: {name!r} is the whole request; "
                "only a `ctx: Context` can follow it"
            )
    if batched and kind == "one":
        raise SignatureError(f"{where}: parameter {name!r} must be list[Request]: with batching= requests share a call")
    if not batched and kind == "many":
        raise SignatureError(f"{where}: parameter {name!r} is a list of requests, which needs batching=")
    return name


def _kind(hint: Any) -> str | None:
    """The number of requests that a hint stands for, "one" or "many"; None for another hint."""
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
    # If the compiled extension is not loaded, no annotation can refer to its class.
    core = sys.modules.get("penstock._core")
    return core is not None and type_hints.unaliased(hint) is getattr(core, "Request", None)
