"""Default of timeout arguments, and the limits that timeouts stand for."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

__all__ = ["USE_CLIENT_DEFAULT", "Limits", "Timeout", "UseClientDefault", "is_default", "limits"]


class UseClientDefault:
    """The class of `USE_CLIENT_DEFAULT`."""

    def __repr__(self) -> str:
        return "USE_CLIENT_DEFAULT"


USE_CLIENT_DEFAULT = UseClientDefault()
"""The default of a call's `timeout`: the client's own. None is no limit."""

Timeout = Union[float, None, "tuple[float | None, ...]", Any]
"""Seconds, None, httpx's tuple (connect, read, write, pool) or its `Timeout`."""

_NO_CONNECT_LIMIT = 300.0


class Limits(NamedTuple):
    """Limits of connecting and of the whole call, in seconds."""

    connect: float
    whole: float | None


def is_default(timeout: Any) -> bool:
    """Returns whether a timeout is the default, of this package or of httpx."""
    return isinstance(timeout, UseClientDefault) or type(timeout).__name__ == "UseClientDefault"


def limits(timeout: Timeout) -> Limits:
    """Returns the limits of a timeout in any of its forms.

    Raises:
        ValueError: the timeout has another form.
    """
    if timeout is None:
        return Limits(_NO_CONNECT_LIMIT, None)
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        return Limits(float(timeout), float(timeout))
    if isinstance(timeout, (tuple, list)) and len(timeout) >= 2:
        connect, whole = timeout[0], timeout[1]
    elif hasattr(timeout, "connect") and hasattr(timeout, "read"):
        connect, whole = timeout.connect, timeout.read
    else:
        raise ValueError(f"timeout is {timeout!r}, expected seconds, None, a tuple of four or httpx's Timeout")
    return Limits(_NO_CONNECT_LIMIT if connect is None else float(connect), None if whole is None else float(whole))
