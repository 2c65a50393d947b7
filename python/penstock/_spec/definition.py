"""What the server needs to know of a model. Rust reads these attributes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock._spec.batching import Batching
from penstock._spec.caching import Cache
from penstock._spec.fallback import Fallback
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock._spec.tensor import Tensor
from penstock._spec.versions import VersionPolicy
from penstock._spec.warmup import Warmup

if TYPE_CHECKING:
    from penstock._core import SequenceInfo
    from penstock._spec.placement import Channels, Spawning

__all__ = ["BoundHandler", "Definition", "Document", "Handler", "nothing_to_close"]


class Handler(Protocol):
    """One instance of a model, built, called and closed on a thread of its own."""

    @property
    def call(self) -> Callable[..., Any]:
        """Takes the inputs in declared order, None for an absent one, then the context if wanted.

        Returns an array, a tuple in output order, a dict by output name, or None without outputs; an async
        handler's returns an awaitable of that.
        """

    @property
    def close(self) -> Callable[[], object]:
        """Called once at shutdown, on the instance's thread."""

    @property
    def close_sequence(self) -> Callable[[SequenceInfo], object]:
        """Called when a sequence is over, on the instance's thread, after its last request."""


def nothing_to_close(*_: object) -> None:
    """The `close` and `close_sequence` of a handler that holds nothing."""


@dataclass(frozen=True, slots=True)
class BoundHandler:
    """A `Handler` made of callables."""

    call: Callable[..., Any]
    close: Callable[[], object] = nothing_to_close
    close_sequence: Callable[[SequenceInfo], object] = nothing_to_close


@dataclass(frozen=True, slots=True)
class Document:
    """The JSON documents that a BYTES tensor carries, for the server's description of itself."""

    schema: str
    """Their JSON Schema, as JSON text. References in it begin with `#` and mean this schema."""
    example: str | None = None
    """A valid one, as JSON text; None where the hint tells too little to make one."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A model, ready to be loaded. Made by `Model.definition()`; everything in it is checked."""

    name: str
    version: str
    platform: str
    """The `platform` that metadata shows."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    batching: Batching | None
    """None: each request is one call, and there is no batch axis."""
    instances: int
    """How many calls may run at once, each on its own thread or in its own process."""
    max_queue: int
    """The most requests that wait; one more is refused as `Overloaded`."""
    wants_context: bool
    """Whether `call` takes a `Context` as its last argument."""
    streams: bool
    """Whether `call` returns an iterator of any number of answers, instead of one."""
    factory: Callable[[], Handler]
    """Builds one instance; called once on each instance's own thread."""
    explainer: Definition | None = None
    """What answers `:explain` for this model; loaded and named beside it."""
    description: str = ""
    """What the model does, in its author's words; empty if nothing is said."""
    input_documents: Mapping[str, Document] = field(default_factory=dict)
    """Of the inputs that carry a JSON document, by name."""
    output_documents: Mapping[str, Document] = field(default_factory=dict)
    """Of the outputs that carry a JSON document, by name."""
    queueing: Queueing | None = None
    """None: one level, and no limit on the wait."""
    resources: Resources | None = None
    """What each batch needs of what the server has; None for nothing."""
    sequences: Sequences | None = None
    """None: no request belongs to another."""
    cache: Cache | None = None
    """None: each request is computed."""
    concurrency: int | None = None
    """How many calls of an async handler run at once on each instance's event loop; None for a plain handler."""
    version_policy: VersionPolicy | None = None
    """Which of the model's versions serve, as its repository has it; None for all."""
    warmup: Warmup | None = None
    """What each instance answers before the model is ready; None for nothing."""
    processes: Spawning | Channels | None = None
    """How the instances are started, where each is a process, or where they are, if another process has attached the
    model; None where each is a thread."""
    buckets: Sequence[tuple[str, list[float]]] = ()
    """Names of histograms that the handler keeps, and the ascending bounds of their buckets."""
    calls: tuple[str, ...] | None = None
    """The models that it says it calls, by name; None if it does not say."""
    any_shape: bool = False
    """Whether outputs may have other shapes than they declare."""
    open: bool = False
    """Whether `call` takes requests as they are, one or a list of them, in place of inputs."""
    lenient: bool = False
    """Whether requests to it may be what V2 does not allow: null for NaN, datatypes in lower case, any version."""
    routes: tuple[str, ...] = ()
    """Methods and patterns of HTTP paths whose requests it takes as they are."""
    fallback: Fallback | None = None
    """What answers those that it does not; None for its own errors."""
    opaque: bool = False
    """Whether `call` takes and gives `_core.Held` tensors, as they are, in place of arrays."""
