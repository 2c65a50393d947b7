"""Binds a handler to its signature. A handler of plain arrays is called directly, without a wrapper."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock._handler.parameters import BoundTensor, Signature
from penstock._spec.results import Final
from penstock.errors import HandlerError


def bind(handler: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Returns a callable that takes the declared inputs by position, then the context if the handler wants it."""
    if signature.is_direct:
        return handler
    to_arguments = _argument_converter(signature)
    to_outputs = _output_converter(signature)
    positional, keywords = signature.positional, signature.keywords
    if any(bound.adapter is not None and bound.adapter.by_row for bound in signature.inputs):
        return _bind_rows(handler, signature, awaits=False)

    def call(*inputs: Any) -> Any:
        values = to_arguments(inputs)
        named = {name: values[index] for name, index in keywords}
        return to_outputs(handler(*[values[index] for index in positional], **named))

    return call


def _bind_rows(handler: Callable[..., Any], signature: Signature, *, awaits: bool) -> Callable[..., Any]:
    """As `bind`, for a handler of lists of rows; `awaits` is whether its result is awaited."""
    from penstock._handler.row_adapters import bind_rows

    to_arguments, to_outputs = _argument_converter(signature), _output_converter(signature)
    positional, keywords = signature.positional, signature.keywords

    def call_handler(values: Sequence[Any]) -> Any:
        named = {name: values[index] for name, index in keywords}
        return handler(*[values[index] for index in positional], **named)

    async def call_awaited(values: Sequence[Any]) -> Any:
        return to_outputs(await call_handler(values))

    call = call_awaited if awaits else lambda values: to_outputs(call_handler(values))
    call_rows = bind_rows(call, signature.inputs, awaits=awaits)
    return lambda *inputs: call_rows(to_arguments(inputs))


def bind_async(handler: Callable[..., Any], signature: Signature) -> Callable[..., Awaitable[Any]]:
    """As `bind`, for a handler whose result is awaited."""
    if signature.is_direct:
        return handler
    if any(bound.adapter is not None and bound.adapter.by_row for bound in signature.inputs):
        return _bind_rows(handler, signature, awaits=True)
    call = bind(handler, _with_plain_outputs(signature))
    if all(bound.adapter is None for bound in signature.outputs):
        return call
    to_outputs = _output_converter(signature)

    async def call_async(*inputs: Any) -> Any:
        return to_outputs(await call(*inputs))

    return call_async


def bind_stream(handler: Callable[..., Any], signature: Signature) -> Callable[..., Iterator[Any]]:
    """As `bind`, for a handler that returns an iterator of responses."""
    call = bind(handler, _with_plain_outputs(signature))
    if all(bound.adapter is None for bound in signature.outputs):
        return call
    to_outputs = _chunk_converter(signature)

    def chunks(*inputs: Any) -> Iterator[Any]:
        yielded = call(*inputs)
        try:
            for chunk in yielded:
                yield to_outputs(chunk)
        finally:
            # Otherwise the iterator would be closed by the garbage collector, possibly much later.
            if hasattr(yielded, "close"):
                yielded.close()

    return chunks


def bind_async_stream(handler: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """As `bind_stream`, for a handler that returns an async iterator, or an awaitable of an iterator."""
    call = bind(handler, _with_plain_outputs(signature))
    if all(bound.adapter is None for bound in signature.outputs):
        return call
    to_outputs = _chunk_converter(signature)

    async def chunks(*inputs: Any) -> AsyncIterator[Any]:
        yielded = call(*inputs)
        if inspect.isawaitable(yielded):
            yielded = await yielded
        try:
            if isinstance(yielded, AsyncIterator):
                async for chunk in yielded:
                    yield to_outputs(chunk)
            else:
                for chunk in yielded:
                    yield to_outputs(chunk)
        finally:
            if hasattr(yielded, "aclose"):
                await yielded.aclose()
            elif hasattr(yielded, "close"):
                yielded.close()

    return chunks


def _with_plain_outputs(signature: Signature) -> Signature:
    """The signature without adapters of outputs, for results that are converted after the call has returned."""
    return replace(signature, outputs=tuple(BoundTensor(bound.tensor) for bound in signature.outputs))


def _chunk_converter(signature: Signature) -> Callable[[Any], Any]:
    to_outputs = _output_converter(signature)

    def convert(chunk: Any) -> Any:
        if type(chunk) is not Final:
            return to_outputs(chunk)
        return chunk if chunk.outputs is None else Final(to_outputs(chunk.outputs))

    return convert


def _argument_converter(signature: Signature) -> Callable[[Sequence[Any]], Sequence[Any]]:
    bound_tensors = signature.inputs
    if all(bound.adapter is None and bound.default is None for bound in bound_tensors):
        return lambda inputs: inputs

    def convert(inputs: Sequence[Any]) -> Sequence[Any]:
        values = [_value(bound, array) for bound, array in zip(bound_tensors, inputs, strict=False)]
        # The context follows the inputs.
        return [*values, *inputs[len(bound_tensors) :]]

    return convert


def _value(bound: BoundTensor, array: Any) -> Any:
    if array is None:
        return bound.default
    return array if bound.adapter is None else bound.adapter.to_python(array, bound.tensor.name)


def _output_converter(signature: Signature) -> Callable[[Any], Any]:
    bound_tensors = signature.outputs
    if all(bound.adapter is None for bound in bound_tensors):
        return lambda returned: returned
    if len(bound_tensors) == 1:
        return lambda returned: _array(bound_tensors[0], returned)

    def convert(returned: Any) -> tuple[Any, ...]:
        if not isinstance(returned, (tuple, list)) or len(returned) != len(bound_tensors):
            shown = type(returned).__name__
            size = f" of {len(returned)}" if isinstance(returned, (tuple, list)) else ""
            raise HandlerError(
                f"the handler returned a {shown}{size}, it declares a tuple of {len(bound_tensors)} outputs"
            )
        return tuple(_array(bound, value) for bound, value in zip(bound_tensors, returned, strict=True))

    return convert


def _array(bound: BoundTensor, value: Any) -> Any:
    return value if bound.adapter is None else bound.adapter.to_array(value, bound.tensor.name)
