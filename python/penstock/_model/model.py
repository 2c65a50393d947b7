"""`model` and `Model`: a function or class as a servable model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from penstock._handler.parameters import documents, shown_types
from penstock._model.call_graph import names_of
from penstock._model.checks import check_batching
from penstock._model.describe import model_card
from penstock._model.iterative import batching_of, check_iterative, check_step, excluded, iterative_signature
from penstock._model.option_types import ModelOptions, option_hint
from penstock._model.options import (
    DEFAULT_MAX_QUEUE,
    buckets_of,
    check_cache,
    check_processes,
    check_sequences,
    checked_count,
    checked_name,
    checked_option,
    concurrency_of,
    description_of,
    instances_of,
    is_inline,
    method_of,
    read_resources,
    streams_of,
    wire_name,
)
from penstock._model.routes import read_fallback, read_routes
from penstock._model.stall import stall_timeout_of
from penstock._model.warmup import WarmupRequests, read_warmup
from penstock._spec.batching import Batching, Iterative
from penstock._spec.caching import Cache
from penstock._spec.definition import BoundHandler, Definition, Handler, nothing_to_close
from penstock._spec.instances import Processes
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock._spec.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from penstock._handler.parameters import Signature
    from penstock._model.explain import Explainer, Shared

__all__ = ["Model", "ModelOptions", "model"]

P = ParamSpec("P")
R = TypeVar("R")


class Model(Generic[P, R]):
    """A function, class or callable that can be served. Created by `model`.

    Calling it calls the wrapped target, `__wrapped__`, so a decorated function can still be tested as a function.
    """

    name: str
    """Name on the wire."""
    version: str
    """Version on the wire."""
    description: str
    """Description in the API documentation; empty for none."""
    inputs: tuple[Tensor, ...]
    """Inputs, in the order of the handler's parameters."""
    outputs: tuple[Tensor, ...]
    """Outputs, in the order of a returned tuple."""
    batching: Batching | None
    """Batching of requests; None where each request is one call."""
    iterative: Iterative | None
    """Iterative batching; None for any other."""
    instances: int
    """Number of instances. Each computes one call at a time, or several if the handler is async."""
    processes: Processes | None
    """Settings of the processes, where instances are processes; None where they are threads."""
    max_concurrency: int | None
    """Calls that an instance's event loop runs at once; None where the handler is not async."""
    max_queue: int
    """Most requests that wait."""
    streams: bool
    """True if the handler returns any number of responses to a request, as an iterator."""
    queueing: Queueing | None
    """Queue settings; None for one priority level without a limit on the wait."""
    resources: Resources | None
    """Shared resources that each batch occupies; None for none."""
    sequences: Sequences | None
    """Sequence settings; None where requests are independent."""
    cache: Cache | None
    """Response cache; None where each request is computed."""
    calls: tuple[str, ...] | None
    """The only models that the handler may call; None for any."""
    open: bool
    """True if the handler takes raw requests: any tensors, or HTTP requests to its routes."""
    routes: tuple[str, ...]
    """HTTP methods and path patterns of the model's routes."""
    route_example: str | None = None
    """The body of an example request to the first route, as JSON text, for the banner; None if none is known."""
    __wrapped__: Callable[P, R]

    def __init__(self, target: Callable[P, R], **options: Unpack[ModelOptions]) -> None:
        # Names and docs only: a class's attributes would shadow those of the model.
        functools.update_wrapper(self, target, updated=())
        self._options = options
        self.name = wire_name(options.get("name"), target, routes=options.get("routes") is not None)
        where = f"model {self.name!r}"
        self.version = checked_name("version", str(options.get("version", "1")), where)
        self.batching, self.iterative = batching_of(options.get("batching"), where)
        self.instances, self.processes = instances_of(options.get("instances", 1), where)
        check_processes(self.processes, self.batching, options.get("max_concurrency"), where)
        self.max_queue = checked_count(options.get("max_queue", DEFAULT_MAX_QUEUE), f"{where}: max_queue")
        self._stall_timeout = stall_timeout_of(options.get("stall_timeout"), self.processes, where)
        self.queueing = checked_option(options.get("queueing"), Queueing, f"{where}: queueing")
        self.resources = read_resources(options.get("resources"), where)
        self.sequences = checked_option(options.get("sequences"), Sequences, f"{where}: sequences")
        self.cache = checked_option(options.get("cache"), Cache, f"{where}: cache")
        self._warmup = read_warmup(options.get("warmup"), where)
        self._buckets = buckets_of(options.get("buckets"), where)
        self.calls = names_of(options.get("calls"), where, processes=self.processes is not None)
        check_iterative(self.iterative, excluded(self, options), where)
        self._method = method_of(target, where) if self.iterative is None else check_step(target, where)
        self.streams = self.iterative is not None or streams_of(options.get("streams"), self._unbound(), where)
        self.max_concurrency = concurrency_of(
            options.get("max_concurrency"), self._unbound(), batched=self.batching is not None, where=where
        )
        self.inline = is_inline(
            options.get("instances"),
            where,
            async_=self.max_concurrency is not None,
            streams=self.streams,
            sequences=self.sequences is not None,
        )
        self.description = description_of(options.get("description"), target, self._method, where)
        self._signature = self._read_signature(where)
        self.open = self._signature.open
        self.routes = read_routes(options, self.batching, where, is_open=self.open)
        self._fallback = read_fallback(options, self.routes, where, streams=self.streams)
        self._explainer = self._read_explainer(where)
        self.inputs, self.outputs = self._signature.tensors
        both, processes = (self.inputs, self.outputs), self.processes is not None
        check_batching(self.batching, both, where, streams=self.streams, processes=processes)
        check_cache(self.cache, streams=self.streams, sequences=self.sequences is not None, where=where)
        check_sequences(self.sequences, self.queueing, context=self._signature.wants_context, where=where)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, or builds an instance of the class."""
        return self.__wrapped__(*args, **kwargs)

    def with_options(self, **options: Unpack[ModelOptions]) -> Self:
        """Returns the target with other options, for example a second version of one function."""
        merged: ModelOptions = {**self._options, **options}
        return type(self)(self.__wrapped__, **merged)

    def definition(self, payload: bytes | None = None) -> Definition:
        """The definition that the server loads.

        Args:
            payload: What the processes of the model load; None to find it out.

        Raises:
            SignatureError: another process can neither import the model nor receive its code.
        """
        definition = self.bare_definition()
        if self.processes is None:
            return definition
        from penstock._model.spawn import spawning

        return replace(definition, processes=spawning(self.processes, definition, self, payload))

    def bare_definition(self) -> Definition:
        """The definition that each instance loads, without the placement in processes."""
        explainer = None
        factory: Callable[[], Handler] = self._build
        if self._explainer is not None:
            from penstock._model.explain import Shared

            shared = Shared()
            explainer = self._explainer.definition(self.name, self.version, self.max_queue, shared)
            factory = lambda: self._build(shared)  # noqa: E731
        return Definition(
            name=self.name,
            version=self.version,
            platform="penstock",
            inputs=self.inputs,
            outputs=self.outputs,
            batching=self.batching,
            iterative=self.iterative,
            instances=self.instances,
            inline=self.inline,
            concurrency=self.max_concurrency,
            max_queue=self.max_queue,
            stall_timeout=self._stall_timeout,
            wants_context=self._signature.wants_context,
            streams=self.streams,
            factory=factory,
            explainer=explainer,
            description=self.description,
            input_documents=documents(self._signature.inputs),
            output_documents=documents(self._signature.outputs),
            input_types=shown_types(self._signature.inputs),
            output_types=shown_types(self._signature.outputs),
            queueing=self.queueing,
            resources=self.resources,
            sequences=self.sequences,
            cache=self.cache,
            warmup=None if self._warmup is None else WarmupRequests(self._warmup),
            buckets=self._buckets,
            calls=self.calls,
            plain_types=self._signature.is_plain,
            check_shapes=self._options.get("check_shapes", True),
            open=self.open,
            routes=self.routes,
            fallback=self._fallback,
        )

    def examples(self) -> dict[str, str | None]:
        """An example document for each input that carries JSON; None where the type hint does not suffice."""
        return {name: document.example for name, document in documents(self._signature.inputs).items()}

    def __repr__(self) -> str:
        return f"Model({self.name!r}, version {self.version!r}, inputs={[*self.inputs]}, outputs={[*self.outputs]})"

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        return model_card(self.bare_definition())

    def _unbound(self) -> Any:
        """The handler, as a function or as an unbound method."""
        return getattr(self.__wrapped__, self._method) if self._method else self.__wrapped__

    def _read_signature(self, where: str) -> Signature:
        from penstock._handler.signature import read_signature

        if self.iterative is not None:
            return iterative_signature(self._options.get("inputs"), self._options.get("outputs"), where)
        target: Any = self.__wrapped__
        # Reached through its class, a static or class method has no `self` left to fill.
        bound = (staticmethod, classmethod)
        is_method = bool(self._method) and not isinstance(inspect.getattr_static(target, self._method), bound)
        return read_signature(
            self._unbound(),
            where,
            is_method=is_method,
            inputs=self._options.get("inputs"),
            outputs=self._options.get("outputs"),
            batched=self.batching is not None,
            streams=self.streams,
        )

    def _read_explainer(self, where: str) -> Explainer | None:
        # Few classes have an explainer. An instance in another process cannot be reached from here.
        if not self._method or not hasattr(self.__wrapped__, "explain") or self.processes is not None or self.open:
            return None
        from penstock._model.explain import read_explainer

        return read_explainer(self.__wrapped__, where, inputs=self._options.get("inputs"), batching=self.batching)

    def _build(self, shared: Shared | None = None) -> Handler:
        from penstock._handler import bind

        target: Any = self.__wrapped__
        instance: Any = target() if self._method else None
        handler = getattr(instance, self._method) if self._method else target
        is_async = self.max_concurrency is not None
        plain, stream = (bind.bind_async, bind.bind_async_stream) if is_async else (bind.bind, bind.bind_stream)
        bound_call: Any = stream if self.streams else plain
        close, close_sequence = (getattr(instance, name, nothing_to_close) for name in ("close", "close_sequence"))
        if self.iterative is not None:
            return BoundHandler(handler, close, leave=getattr(instance, "leave", nothing_to_close))
        bound = BoundHandler(bound_call(handler, self._signature), close, close_sequence)
        if shared is None or not self._method:
            return bound
        return shared.put(instance, bound, on_loop=is_async)


@overload
def model(target: Callable[P, R], /, **options: Unpack[ModelOptions]) -> Model[P, R]: ...
@overload
def model(**options: Unpack[ModelOptions]) -> Callable[[Callable[P, R]], Model[P, R]]: ...
def model(target: Any = None, /, **options: Unpack[ModelOptions]) -> Any:
    """Makes a function, class or callable servable: `@model`, `@model(...)` or `model(...)(target)`.

    A class is built once per instance, on the instance's own thread. Its handler is `__call__`, else `predict`; with
    `batching=Iterative(...)` it is `step`.
    Its method `close`, if there is one, is called at shutdown.

    Args:
        target: The function, class or callable, where `model` is used without options.
        options: See `ModelOptions`.

    Raises:
        SignatureError: the target cannot be served with these options; the message names the problem and a remedy.

    Example:
        >>> @model(inputs=[Tensor("x", np.float32, [16])], outputs=[Tensor("y", np.float32, [16])])
        ... def double(x):
        ...     return x * 2
    """
    for option in options:
        if option not in ModelOptions.__annotations__:
            names = ", ".join(ModelOptions.__annotations__)
            raise TypeError(f"model() has no option {option!r}{option_hint(option)}; it has {names}")
    if target is None:
        return lambda target: model(target, **options)
    return target.with_options(**options) if isinstance(target, Model) else Model(target, **options)
