"""`Cache`: options of a model's response cache."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Cache"]

_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, init=False, slots=True)
class Cache:
    """Response cache of a model, in memory.

    For a handler whose response depends on the request alone, not on earlier requests or others in its batch. Requests
    are equal if the handler cannot distinguish them and their clients send the same credentials. After a reload of the
    model the cache is empty.

    Args:
        max_bytes: Limit of bytes; the least recently used responses are evicted first.
        ttl: Lifetime of a response, in seconds or as a `timedelta`; None for no limit.
        revision: Name of the code and weights. With it and the setting `cache_redis`, servers share responses of models
            with the same name, version and revision. Change it with the code or weights.
        vary: Names of headers that distinguish requests, in addition to those with credentials.
        per_caller: Whether the responses of a handler with a `Context` may depend on the id, priority and headers of
            a request. False: only on inputs, parameters and requested outputs.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Cache(max_bytes=256 << 20, ttl=300.0, vary=["x-tenant"])
    """

    max_bytes: int
    """Limit of bytes."""
    ttl: float | None
    """Lifetime of a response in seconds."""
    vary: tuple[str, ...]
    """Headers that distinguish requests, in lower case."""
    revision: str | None
    """Name of the code and weights, for shared responses."""
    per_caller: bool
    """True if responses may depend on the id, priority and headers of a request."""

    def __init__(
        self,
        max_bytes: int = 64 << 20,
        *,
        ttl: float | timedelta | None = None,
        vary: str | Iterable[str] = (),
        revision: str | None = None,
        per_caller: bool = True,
    ) -> None:
        if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or not 1 <= max_bytes < 2**63:
            raise ValueError(f"Cache: max_bytes must be an integer of 1 or more, not {max_bytes!r}")
        seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else None if ttl is None else float(ttl)
        if seconds is not None and not 0.0 < seconds < float("inf"):
            raise ValueError(f"Cache: ttl must be more than 0 seconds or None, not {ttl!r}")
        names = tuple(str(name).lower() for name in ([vary] if isinstance(vary, str) else vary))
        for name in names:
            if not _HEADER.fullmatch(name):
                raise ValueError(f"Cache: vary: {name!r} is not a header's name")
        if revision is not None and (not isinstance(revision, str) or not revision):
            raise ValueError(f"Cache: revision must be text or None, not {revision!r}")
        values = (int(max_bytes), seconds, names, revision, bool(per_caller))
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)
