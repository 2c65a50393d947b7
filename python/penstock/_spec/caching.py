"""`Cache`: answers that are kept, so that an equal request need not be computed again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Cache"]

_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, init=False, slots=True)
class Cache:
    """Keeps a model's answers in memory, and gives them to equal requests without computing them again.

    For a handler that gives the same answer to the same request, whatever comes before it and whatever shares its
    batch. Requests are equal if the handler could not tell them apart and their callers show the same credentials. A
    reload of the model begins with an empty cache.

    Args:
        max_bytes: The most bytes that are kept; who was asked for longest ago goes first.
        ttl: For how long an answer is given, in seconds or as a `timedelta`; None for as long as there is room.
        revision: The name of the code and weights that compute. With it, and with the server's setting `cache_redis`,
            servers whose models have the same name, version and revision share their answers; change it with them.
        vary: Names of headers whose values set callers apart, beside those that hold credentials.
        per_caller: Whether a handler that takes a `Context` may answer by the id, priority and headers of a request.
            False says that it does not, but by inputs, parameters and the outputs asked for alone.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Cache(max_bytes=256 << 20, ttl=300.0, vary=["x-tenant"])
    """

    max_bytes: int
    """The most bytes that are kept."""
    ttl: float | None
    """For how many seconds an answer is given."""
    vary: tuple[str, ...]
    """Headers whose values set callers apart, in lower case."""
    revision: str | None
    """The name of the code and weights that compute, to share answers by."""
    per_caller: bool
    """Whether a handler that takes a `Context` may answer by the id, priority and headers of a request."""

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
