"""`ModelOptions`: the keyword arguments of `model`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TypedDict

from penstock._spec.batching import Batching, Iterative
from penstock._spec.caching import Cache
from penstock._spec.fallback import Fallback
from penstock._spec.instances import Processes, Threads
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock._spec.suggestions import suggestion
from penstock._spec.tensor import Tensor
from penstock._spec.warmup import Samples, Warmup

__all__ = ["ModelOptions", "option_hint"]

_OTHER_NAMES = {
    "max_batch_size": "batching=Batching(max_size=...)",
    "batch_size": "batching=Batching(max_size=...)",
    "batch": "batching=Batching(max_size=...)",
    "max_steps": "batching=Iterative(max_steps=...)",
    "workers": "instances=... or instances=Processes(...)",
    "replicas": "instances=...",
    "priorities": "queueing=Queueing(priorities=...)",
    "stream": "streams=...",
}
"""Hints for options that are expected under another name."""


class ModelOptions(TypedDict, total=False):
    """Keyword arguments of `model`. All are optional."""

    name: str | None
    """Name on the wire; default: the name of the function or class. A model with `routes` whose name begins with ':'
    is not listed."""
    version: str | int
    """Version on the wire; default "1"."""
    description: str | None
    """Description at /docs and in /openapi.json; default: the docstring. "" shows none."""
    inputs: Iterable[Tensor] | None
    """Inputs that the handler takes as arrays; default: from its annotations. For a handler of raw requests:
    metadata, which is not enforced."""
    outputs: Iterable[Tensor] | None
    """Outputs that the handler returns as arrays; default: from its return annotation. For a handler of raw requests:
    metadata, which is not enforced."""
    batching: Batching | Iterative | None
    """Batching of requests; default: each request is one call, without a batch axis. `Iterative` is for a class with a
    method `step`."""
    instances: int | Threads | Processes
    """Calls that may run at once, as a number or `Threads(n)`, or `Processes(n)`; default 1."""
    max_concurrency: int | None
    """Calls of an async handler that run at once on each instance's event loop; default 64, with batching 1."""
    max_queue: int
    """Most requests that wait; one more is refused as `Overloaded`. Default 1024."""
    stall_timeout: float | timedelta | None
    """Seconds without progress of a busy instance after which the server reports that it is not live; 0 is no limit.
    Default: the server's setting."""
    streams: bool | None
    """True if the handler returns an iterator of responses; default: True for generators."""
    queueing: Queueing | None
    """Priority levels, and limits on the time and size of the queue."""
    resources: Mapping[str, int] | Resources | None
    """Shared resources that each batch occupies, as amounts by name or `Resources`."""
    sequences: Sequences | None
    """State between the requests of a sequence; default: none."""
    cache: Cache | None
    """Response cache; default: each request is computed."""
    warmup: bool | Samples | Warmup | None
    """Samples that each instance computes before the model is ready: True for zeros, a list of dicts, a callable that
    returns it, or a `Warmup`."""
    buckets: Mapping[str, Iterable[float]] | None
    """Ascending bucket bounds of the histograms for `ctx.metrics.observe`, by name."""
    calls: Iterable[str] | None
    """Names of the only models that the handler calls with `ctx.models`, checked at startup; default: any."""
    check_shapes: bool
    """Require the declared shapes of outputs; default True. With False an output may have any shape and rank;
    a batch still needs its number of rows, unless the handler returns `Answers`."""
    routes: Iterable[str] | None
    """HTTP methods and paths, such as "POST /score/{customer}", for a handler of raw requests."""
    fallback: Fallback | None
    """The model that responds to requests to these routes where this one does not."""


def option_hint(name: str) -> str:
    """The hint for an option that `model` does not have; empty if nothing is similar."""
    if name in _OTHER_NAMES:
        return f", write {_OTHER_NAMES[name]}"
    if name in Batching.__dataclass_fields__:
        return f", write batching=Batching({name}=...)"
    return suggestion(name, ModelOptions.__annotations__)
