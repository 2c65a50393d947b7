"""`Definition`: a checked model as the server loads it. Rust reads the attributes by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock._spec.batching import Batching, Iterative
from penstock._spec.caching import Cache
from penstock._spec.fallback import Fallback
from penstock._spec.placement import Channels, Spawning
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock._spec.tensor import Tensor
from penstock._spec.versions import VersionPolicy

if TYPE_CHECKING:
    from penstock._core import Row, SequenceInfo

__all__ = ["BoundHandler", "Definition", "Document", "Handler", "WarmupSource", "nothing_to_close"]


class Handler(Protocol):
    """One instance of a model. It is built, called and closed on the same thread."""

    @property
    def call(self) -> Callable[..., Any]:
        """Computes one batch.

        Arguments are the inputs in declared order, None for an absent one, then the context if the definition has
        `wants_context`. Returns an array, a tuple in output order, a dict by output name, or None without outputs.
        The call of an async handler returns an awaitable of that. That of an iterative model is its `step`.
        """

    @property
    def close(self) -> Callable[[], object]:
        """Releases the instance. Called once at shutdown, on the instance's thread."""

    @property
    def close_sequence(self) -> Callable[[SequenceInfo], object]:
        """Ends a sequence. Called on the instance's thread, after the last request of the sequence."""


def nothing_to_close(*_: object) -> None:
    """Does nothing: the `close`, `close_sequence` and `leave` of a handler without resources."""


@dataclass(frozen=True, slots=True)
class BoundHandler:
    """A `Handler` built from callables."""

    call: Callable[..., Any]
    close: Callable[[], object] = nothing_to_close
    close_sequence: Callable[[SequenceInfo], object] = nothing_to_close
    leave: Callable[[Row], object] = nothing_to_close
    """Of an iterative model: called once for each row that has been in a step, when it has left."""


@dataclass(frozen=True, slots=True)
class Document:
    """The JSON documents that a BYTES tensor carries, for the OpenAPI description."""

    schema: str
    """JSON Schema, as JSON text. References in it begin with `#` and are relative to this schema."""
    example: str | None = None
    """A valid document, as JSON text; None where the type hint does not suffice to build one."""


class WarmupSource(Protocol):
    """Requests that each instance computes before its model is ready."""

    def requests(self, definition: Definition) -> Iterable[tuple[str, bytes, int]]:
        """For each request: a label for messages, the body, and the length of the body's JSON part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A model, ready to be loaded. Every field is checked."""

    name: str
    version: str
    platform: str
    """The `platform` in the model's metadata."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    batching: Batching | None
    """None: each request is one call, and there is no batch axis."""
    instances: int
    """Calls that may run at once, each on its own thread or in its own process."""
    max_queue: int
    """Most requests that wait; one more is refused as `Overloaded`."""
    wants_context: bool
    """True if `call` takes a `Context` as its last argument."""
    streams: bool
    """True if `call` returns an iterator of any number of responses, instead of one."""
    factory: Callable[[], Handler]
    """Builds one instance. Called once per instance, on the instance's own thread."""
    explainer: Definition | None = None
    """The model that serves `:explain` for this one. It is loaded and unloaded with it."""
    description: str = ""
    """Description by the author; empty for none."""
    input_documents: Mapping[str, Document] = field(default_factory=dict)
    """Documents of the inputs that carry JSON, by name."""
    output_documents: Mapping[str, Document] = field(default_factory=dict)
    """Documents of the outputs that carry JSON, by name."""
    input_types: Mapping[str, str] = field(default_factory=dict)
    """Types of inputs that are plain values, close to their source, by name."""
    output_types: Mapping[str, str] = field(default_factory=dict)
    """Types of outputs that are plain values, by name."""
    queueing: Queueing | None = None
    """None: one priority level, and no limit on the wait."""
    resources: Resources | None = None
    """Shared resources that each batch occupies; None for none."""
    sequences: Sequences | None = None
    """None: requests are independent of each other."""
    cache: Cache | None = None
    """None: each request is computed."""
    iterative: Iterative | None = None
    """Steps of the rows; None: a batch is one call. With it, the model has `batching` and streams."""
    inline: bool = False
    """True if I/O threads may call the handler, where its batches are short."""
    concurrency: int | None = None
    """Calls of an async handler that run at once on each instance's event loop; None for a plain handler."""
    version_policy: VersionPolicy | None = None
    """The versions that serve, as the repository configures them; None for all."""
    warmup: WarmupSource | None = None
    """Requests that each instance computes before the model is ready; None for none."""
    processes: Spawning | Channels | None = None
    """Placement of the instances: processes to start, channels of an attached process, or None for threads."""
    buckets: Sequence[tuple[str, list[float]]] = ()
    """Histograms of the handler by name, with the ascending bounds of their buckets."""
    calls: tuple[str, ...] | None = None
    """Names of the models that the handler calls; None if not declared."""
    plain_types: bool = False
    """True if all inputs have types of JSON values, forms or files, so that requests may be plain on all routes."""
    check_shapes: bool = True
    """False if outputs may differ in shape from their declaration."""
    open: bool = False
    """True if `call` takes raw requests, one or a list of them, in place of inputs."""
    routes: tuple[str, ...] = ()
    """HTTP methods and path patterns whose requests the model takes as raw requests."""
    fallback: Fallback | None = None
    """The model that responds to requests which this one does not serve; None to send this model's errors."""
    stall_timeout: float | None = None
    """Seconds without progress of an instance after which the server is not live; None for the server's setting."""
    opaque: bool = False
    """True if `call` takes and returns `_core.TensorHandle` tensors in place of arrays."""
