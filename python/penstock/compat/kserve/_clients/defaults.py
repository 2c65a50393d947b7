"""The mark of an argument that was left out, and what timeouts mean."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

__all__ = ["USE_CLIENT_DEFAULT", "Limits", "Timeout", "UseClientDefault", "is_default", "limits"]


class UseClientDefault:
    """The class of `USE_CLIENT_DEFAULT`."""

    def __repr__(self) -> str:
        return "USE_CLIENT_DEFAULT"


USE_CLIENT_DEFAULT = UseClientDefault()
"""What a call's `timeout` is when it is left out: the client's own. None is no limit."""

Timeout = Union[float, None, "tuple[float | None, ...]", Any]
"""Seconds, None, httpx's tuple (connect, read, write, pool) or its `Timeout`."""

_NO_CONNECT_LIMIT = 300.0


class Limits(NamedTuple):
    """How long a connection may take to be made, and how long the whole call, in seconds."""

    connect: float
    whole: float | None


def is_default(timeout: Any) -> bool:
    """Whether the client's own timeout is meant, by this package's mark or by httpx's."""
    return isinstance(timeout, UseClientDefault) or type(timeout).__name__ == "UseClientDefault"


def limits(timeout: Timeout) -> Limits:
    """What a timeout in any of its forms limits.

    Raises:
        ValueError: it is none of them.
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
