"""What `model` can be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from penstock._spec.batching import Batching
from penstock._spec.caching import Cache
from penstock._spec.fallback import Fallback
from penstock._spec.instances import Processes, Threads
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock._spec.tensor import Tensor
from penstock._spec.warmup import Samples, Warmup

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
