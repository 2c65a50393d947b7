"""What `model` can be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from penstock.batching import Batching
from penstock.caching import Cache
from penstock.fallback import Fallback
from penstock.instances import Processes, Threads
from penstock.resources import Resources
from penstock.scheduling import Queueing, Sequences
from penstock.tensor import Tensor
from penstock.warmup import Samples, Warmup

__all__ = ["ModelOptions"]


class ModelOptions(TypedDict, total=False):
    """The keyword arguments of `model`; see there."""

    name: str | None
    version: str | int
    description: str | None
    inputs: Iterable[Tensor] | None
    outputs: Iterable[Tensor] | None
    batching: Batching | None
    instances: int | Threads | Processes
    max_concurrency: int | None
    max_queue: int
    streams: bool | None
    queueing: Queueing | None
    resources: Mapping[str, int] | Resources | None
    sequences: Sequences | None
    cache: Cache | None
    warmup: bool | Samples | Warmup | None
    buckets: Mapping[str, Iterable[float]] | None
    calls: Iterable[str] | None
    check_shapes: bool
    routes: Iterable[str] | None
    fallback: Fallback | None
    lenient: bool
