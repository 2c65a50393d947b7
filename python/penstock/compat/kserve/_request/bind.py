"""`bind`: the Penstock model that serves a KServe model."""

from __future__ import annotations

from typing import Any

from penstock import Batching, Model, Processes, Threads
from penstock.compat.kserve._request.bind_options import BindOptions

__all__ = ["BindOptions", "bind"]


def bind(model: Any, options: BindOptions | None = None) -> Model[..., Any]:
    """Returns the Penstock model that serves a KServe model over V1, V2 and gRPC.

    Plain models compute on threads, several requests per call as long as they take about a millisecond together. Async
    models run on an event loop, and their plain stages on threads. Models that return async iterators stream.

    Args:
        model: A `Model`, or an object with a `name` and a `__call__` like its.
        options: How to serve it.

    Raises:
        SignatureError: the model cannot be served with these options.
    """
    from penstock.compat.kserve._metrics.request_metrics import BUCKETS
    from penstock.compat.kserve._model import handler_kind, io_types
    from penstock.compat.kserve._request.batched_handler import BatchedHandler
    from penstock.compat.kserve._request.handler import ModelHandler

    options = options or BindOptions()
    name = options.name or model.name
    handler = ModelHandler(model, name, options)
    common: dict[str, Any] = {
        "name": name,
        "description": (type(model).__doc__ or "").strip(),
        "routes": [f"POST /v1/models/{name}:predict", f"POST /v1/models/{name}:explain"],
        "buckets": BUCKETS,
        "max_queue": options.max_queue,
        "inputs": io_types.declared_tensors(model, "get_input_types"),
        "outputs": io_types.declared_tensors(model, "get_output_types"),
    }
    if isinstance(options.instances, Processes):
        common["instances"] = options.instances
    is_async = handler_kind.is_async_model(model)
    if is_async and not isinstance(options.instances, Processes):
        common["max_concurrency"] = options.max_concurrency
    elif not is_async:
        common.setdefault("instances", Threads(options.threads))
    if is_async and handler_kind.is_streaming(model):
        return Model(_with_hooks(handler.stream, options, is_async=True), **common)
    if options.batching is not None:
        batched = BatchedHandler(handler, name, options.batching.max_size)
        function: Any = batched.handle_async if is_async else batched.handle
        return Model(_with_hooks(function, options, is_async=is_async), batching=options.batching, **common)
    if is_async and isinstance(options.instances, Processes):
        return Model(handler.handle_concurrently, batching=_CONCURRENT, **common)
    if is_async:
        return Model(_with_hooks(handler.handle_async, options, is_async=True), **common)
    return Model(_with_hooks(handler.handle_batch, options, is_async=False), batching=_SHORT, **common)


_CONCURRENT = Batching(max_size=64)
"""Concurrent requests of an event loop in a worker, which takes one call at a time."""
_SHORT = Batching(max_size=64, max_duration=0.001)
"""Requests of short duration that one call of a plain model takes together."""


def _with_hooks(function: Any, options: BindOptions, *, is_async: bool) -> Any:
    """Returns the handler; or a class whose instances are the handler and call the hooks of `options`."""
    loop_hooks, instance_count = options.loop_hooks if is_async else None, options.instance_count
    if isinstance(options.instances, Processes) or (loop_hooks is None and instance_count is None):
        return function

    def begin(_: object) -> None:
        if instance_count is not None:
            instance_count.begin()
        if loop_hooks is not None:
            loop_hooks.begin()

    def close(_: object) -> None:
        if instance_count is not None:
            instance_count.end()

    async def close_async(_: object) -> None:
        if loop_hooks is not None:
            await loop_hooks.end()
        close(_)

    members = {
        "__init__": begin,
        "__call__": staticmethod(function),
        "close": close if loop_hooks is None else close_async,
    }
    return type("HandlerWithHooks", (), members)
