"""Binding: the Penstock model of a bound callable, with its options and the class of its instances."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable
from typing import Any

from penstock import Model, PenstockError, model
from penstock.compat.pytriton._errors import ErrorTranslator
from penstock.compat.pytriton._model import callable_kind, model_spec
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton._model.instances import (
    AsyncInstance,
    BatchInstance,
    Instance,
    InstanceSpec,
    SharedState,
    StreamingInstance,
    SyncInstance,
)
from penstock.compat.pytriton._response import ResponseBuilder
from penstock.compat.pytriton.decorators._context import TritonContext, inject
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.proxy.telemetry import get_telemetry_tracer

__all__ = ["bind"]

CONCURRENCY = 256
"""Maximum number of concurrent calls on an event loop."""


def bind(binding: Binding, unrecoverable: Callable[[BaseException], None]) -> Model[..., Any]:
    """The Penstock model of a binding. Its callables find their context from now on.

    Args:
        binding: The arguments of `Triton.bind`.
        unrecoverable: Called when a callable raises `PyTritonUnrecoverableError`, on the thread of the callable, whose
            clients wait until it returns.

    Raises:
        PyTritonBadParameterError: the configuration has an invalid value.
    """
    config, triton_config = binding.config, binding.triton_config()
    # Without an input no tensor has an axis to batch along.
    batching = model_spec.to_batching(config) if binding.inputs else None
    free_axis = config.batching and not binding.inputs
    handler = _instance_class(binding)
    context = TritonContext()
    for each in binding.callables:
        context = inject(context, each, triton_config)
    specs = itertools.cycle(
        InstanceSpec(each, context, triton_config, ErrorTranslator(binding.name, number, unrecoverable))
        for number, each in enumerate(binding.callables)
    )
    shared = SharedState(
        names=tuple(str(tensor.name) for tensor in binding.inputs),
        batching=batching is not None,
        response_builder=ResponseBuilder(triton_config, strict=binding.strict),
        warmup=tuple(config.model_warmup or ()),
        specs=specs,
        lock=threading.Lock(),
    )
    is_async = issubclass(handler, (AsyncInstance, StreamingInstance))
    instance_class: Any = type(binding.name, (handler,), {"shared": shared})
    try:
        return model(
            instance_class,
            name=binding.name,
            version=binding.version,
            description=inspect.getdoc(callable_kind.innermost_function(binding.callables[0])) or "",
            inputs=[model_spec.to_input(tensor) for tensor in binding.inputs],
            outputs=[model_spec.to_output(tensor, batch_axis=free_axis) for tensor in binding.outputs],
            batching=batching,
            instances=len(binding.callables),
            queueing=model_spec.to_queueing(config) if batching else None,
            cache=model_spec.to_cache(config),
            max_queue=model_spec.MAX_QUEUE,
            # PyTriton sends arrays of any rank and row count. Strict outputs are checked earlier.
            check_shapes=False,
            max_concurrency=CONCURRENCY if is_async else None,
        )
    except PenstockError as error:
        raise PyTritonBadParameterError(str(error)) from error


def _instance_class(binding: Binding) -> type[Instance]:
    if binding.config.decoupled:
        return StreamingInstance
    if any(callable_kind.is_async(each) for each in binding.callables):
        return AsyncInstance
    # Spans belong to single requests, so a traced model receives a list of requests.
    plain = binding.config.batching and binding.inputs and get_telemetry_tracer() is None
    batched = plain and all(callable_kind.function_inside_batch(each) is not None for each in binding.callables)
    return BatchInstance if batched else SyncInstance
