"""Open models: their handlers take requests as they are. How they are recognised, and which options go with them."""

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
    return core is not None and type_hints.unaliased(hint) is getattr(core, "Request", None)
