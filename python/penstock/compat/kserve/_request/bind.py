"""`bind`: the Penstock model that serves a KServe model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import Batching, Model, Processes, Threads

if TYPE_CHECKING:
    from penstock.compat.kserve._model.draining import Life
    from penstock.compat.kserve._model.model_transfer import Carried
    from penstock.compat.kserve._server.event_loops import LoopSetUp

__all__ = ["BindingOptions", "bind"]


@dataclass(frozen=True)
class BindingOptions:
    """How a KServe model is served."""

    name: str | None = None
    """The name that it is served under; its own if None."""
    instances: int | Processes = 16
    """How many requests a plain model computes at once, on threads; or in processes of its own."""
    batching: Batching | None = None
    """How the rows of several requests share one call; None for one request in each call."""
    latency_logging: bool | None = None
    """Whether the log gets a line for each request; as the model says if None."""
    exact_content_types: bool = False
    """Whether V1 bodies are JSON only where the content type says so letter by letter, as in KServe."""
    max_concurrency: int = 1024
    """How many requests an async model has under way at once."""
    max_queue: int = 4096
    """The most requests that wait."""
    on_loop: LoopSetUp | None = None
    """What is done to the event loop of an async model in this process, when it begins and when it ends."""
    life: Life | None = None
    """Is told when instances in this process begin and end."""
    carried: Carried | None = None
    """What is sent to processes in the model's place."""

    @property
    def threads(self) -> int:
        """How many threads the plain stages of an async model have."""
        return self.instances if isinstance(self.instances, int) else 1


def bind(model: Any, options: BindingOptions | None = None) -> Model[..., Any]:
    """The Penstock model that serves a KServe model over V1, V2 and gRPC.

    Plain models compute on threads, as many requests in a turn as take about a millisecond. Async ones run on an event
    loop, with their plain stages on threads. Those that make async iterators stream.

    Args:
        model: A `Model`, or anything with a `name` and a `__call__` like its.
        options: How it is served.

    Raises:
        SignatureError: it cannot be served so.
    """
    from penstock.compat.kserve._metrics.request_metrics import BUCKETS
    from penstock.compat.kserve._model import handler_kind, io_types
    from penstock.compat.kserve._request.batched_handler import Joining
    from penstock.compat.kserve._request.handler import Served

    options = options or BindingOptions()
    name = options.name or model.name
    served = Served(model, name, options)
    common: dict[str, Any] = {
        "name": name,
        "description": (type(model).__doc__ or "").strip(),
        "routes": [f"POST /v1/models/{name}:predict", f"POST /v1/models/{name}:explain"],
        "buckets": BUCKETS,
        "max_queue": options.max_queue,
        "inputs": io_types.shown(model, "get_input_types"),
        "outputs": io_types.shown(model, "get_output_types"),
        "lenient": True,
    }
    if isinstance(options.instances, Processes):
        common["instances"] = options.instances
    waits = handler_kind.waits(model)
    if waits and not isinstance(options.instances, Processes):
        common["max_concurrency"] = options.max_concurrency
    elif not waits:
        common.setdefault("instances", Threads(options.threads))
    if waits and handler_kind.answers_in_pieces(model):
        return Model(_told(served.pieces, options, waits=True), **common)
    if options.batching is not None:
        joining = Joining(served, name, options.batching.max_size)
        joined: Any = joining.wait if waits else joining.many
        return Model(_told(joined, options, waits=waits), batching=options.batching, **common)
    if waits and isinstance(options.instances, Processes):
        return Model(served.together, batching=_TOGETHER, **common)
    if waits:
        return Model(_told(served.answer, options, waits=True), **common)
    return Model(_told(served.many, options, waits=False), batching=_TURN, **common)


_TOGETHER = Batching(max_size=64)
"""Requests that an event loop in another process has under way at once: that takes one call at a time."""
_TURN = Batching(max_size=64, max_duration=0.001)
"""Requests that are so quickly computed that one turn of a thread has many."""


def _told(handler: Any, options: BindingOptions, *, waits: bool) -> Any:
    """The handler; or a class whose objects are the handler, and tell of their beginning and end in this process."""
    on_loop, life = options.on_loop if waits else None, options.life
    if isinstance(options.instances, Processes) or (on_loop is None and life is None):
        return handler

    def begin(_: object) -> None:
        if life is not None:
            life.begin()
        if on_loop is not None:
            on_loop.begin()

    def close(_: object) -> None:
        if life is not None:
            life.end()

    async def close_on_loop(_: object) -> None:
        if on_loop is not None:
            await on_loop.end()
        close(_)

    of_this = {
        "__init__": begin,
        "__call__": staticmethod(handler),
        "close": close if on_loop is None else close_on_loop,
    }
    return type("Told", (), of_this)
