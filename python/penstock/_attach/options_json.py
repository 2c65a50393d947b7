"""A model's options as JSON, and back by the classes that users write."""

from __future__ import annotations

from typing import Any

from penstock._spec.batching import Batching
from penstock._spec.caching import Cache
from penstock._spec.cost import Cost
from penstock._spec.scheduling import Level, Queueing

__all__ = ["batching_of", "batching_read", "cache_of", "queueing_of", "queueing_read"]

# Each attribute is an argument of the same name, but for what is left out here.
_BATCHING = tuple(name for name in Batching.__slots__ if name != "cost")
_QUEUEING = tuple(name for name in Queueing.__slots__ if name not in ("fair_by", "policies"))


def batching_of(batching: Batching | None) -> dict[str, Any] | None:
    """How requests share a batch, as JSON."""
    if batching is None:
        return None
    found = {name: getattr(batching, name) for name in _BATCHING}
    found["cost"] = None if batching.cost is None else [[times, axes] for times, axes in batching.cost.terms]
    return found


def batching_read(found: dict[str, Any] | None) -> Batching | None:
    """The same, read back.

    Raises:
        TypeError, ValueError, KeyError: it is none.
    """
    if found is None:
        return None
    given = {name: found[name] for name in _BATCHING}
    terms = found["cost"]
    if terms is not None:
        given["cost"] = Cost(
            {tuple((str(name), int(axis)) for name, axis in axes): int(times) for times, axes in terms}
        )
    return Batching(**given)


def queueing_of(queueing: Queueing | None) -> dict[str, Any] | None:
    """How requests wait, as JSON."""
    if queueing is None:
        return None
    found = {name: getattr(queueing, name) for name in _QUEUEING}
    found["fair_by"] = queueing.fair_by and f"header:{queueing.fair_by}"
    found["levels"] = [[one.max_size, one.timeout, one.on_timeout] for one in queueing.policies]
    return found


def queueing_read(found: dict[str, Any] | None) -> Queueing | None:
    """The same, read back.

    Raises:
        TypeError, ValueError, KeyError: it is none.
    """
    if found is None:
        return None
    levels = {
        number: Level(max_size=size, timeout=timeout, on_timeout=overdue)
        for number, (size, timeout, overdue) in enumerate(found["levels"], 1)
    }
    return Queueing(**{name: found[name] for name in _QUEUEING}, fair_by=found["fair_by"], levels=levels)


def cache_of(cache: Cache | None) -> dict[str, Any] | None:
    """How answers are kept, as JSON."""
    if cache is None:
        return None
    return {name: getattr(cache, name) for name in Cache.__slots__}
