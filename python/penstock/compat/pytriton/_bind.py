"""The Penstock model of a bound one: its options, and the class whose objects are its instances."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable
from typing import Any

from penstock import Model, PenstockError, model
from penstock.compat.pytriton._errors import Failures
from penstock.compat.pytriton._model import callable_kind, model_spec
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton._model.instances import Answering, Awaiting, Batched, Instance, Plan, Streaming, Turn
from penstock.compat.pytriton._response import Results
from penstock.compat.pytriton.decorators._context import TritonContext, inject
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.proxy.telemetry import get_telemetry_tracer

__all__ = ["bind"]

CONCURRENCY = 256
"""The most calls that an event loop has under way."""


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
    # Without an input there is no axis to batch along.
    batching = model_spec.batching_of(config) if binding.inputs else None
    free_axis = config.batching and not binding.inputs
    handler = _handler_of(binding)
    context = TritonContext()
    for one in binding.callables:
        context = inject(context, one, triton_config)
    turns = itertools.cycle(
        Turn(one, context, triton_config, Failures(binding.name, number, unrecoverable))
        for number, one in enumerate(binding.callables)
    )
    plan = Plan(
        names=tuple(str(tensor.name) for tensor in binding.inputs),
        batching=batching is not None,
        results=Results(triton_config, strict=binding.strict),
        warmup=tuple(config.model_warmup or ()),
        turns=turns,
        lock=threading.Lock(),
    )
    waits = issubclass(handler, (Awaiting, Streaming))
    of_this: Any = type(binding.name, (handler,), {"plan": plan})
    try:
        return model(
            of_this,
            name=binding.name,
            version=binding.version,
            description=inspect.getdoc(callable_kind.bare(binding.callables[0])) or "",
            inputs=[model_spec.tensor_of(tensor) for tensor in binding.inputs],
            outputs=[model_spec.output_of(tensor, batch_axis=free_axis) for tensor in binding.outputs],
            batching=batching,
            instances=len(binding.callables),
            queueing=model_spec.queueing_of(config) if batching else None,
            cache=model_spec.cache_of(config),
            max_queue=model_spec.NO_LIMIT,
            # Strict or not, PyTriton sends arrays of any rank and rows; what is strict is checked before.
            check_shapes=False,
            max_concurrency=CONCURRENCY if waits else None,
        )
    except PenstockError as error:
        raise PyTritonBadParameterError(str(error)) from error


def _handler_of(binding: Binding) -> type[Instance]:
    if binding.config.decoupled:
        return Streaming
    if any(callable_kind.is_async(one) for one in binding.callables):
        return Awaiting
    # A span for each request needs the requests.
    plain = binding.config.batching and binding.inputs and get_telemetry_tracer() is None
    batched = plain and all(callable_kind.inside_of_batch(one) is not None for one in binding.callables)
    return Batched if batched else Answering
