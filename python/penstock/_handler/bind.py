"""The callable that an instance runs. A handler of plain arrays is called as it is, with nothing around it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock._handler.parameters import Signature, Slot
from penstock._spec.results import Final
from penstock.errors import HandlerError


def bind(handler: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Makes the handler callable with the declared inputs by position, then the context if it is wanted."""
    if signature.is_direct:
        return handler
    fill = _filler(signature)
    give = _giver(signature)
    positional, keywords = signature.positional, signature.keywords

    def call(*inputs: Any) -> Any:
        values = fill(inputs)
        named = {name: values[index] for name, index in keywords}
        return give(handler(*[values[index] for index in positional], **named))

    return call


def bind_async(handler: Callable[..., Any], signature: Signature) -> Callable[..., Awaitable[Any]]:
    """As `bind`, for a handler that is to be awaited."""
    if signature.is_direct:
        return handler
    call = bind(handler, _with_plain_outputs(signature))
    if all(slot.adapter is None for slot in signature.outputs):
        return call
    give = _giver(signature)

    async def answer(*inputs: Any) -> Any:
        return give(await call(*inputs))

    return answer


def bind_stream(handler: Callable[..., Any], signature: Signature) -> Callable[..., Iterator[Any]]:
    """As `bind`, for a handler that returns an iterator of answers."""
    call = bind(handler, _with_plain_outputs(signature))
    if all(slot.adapter is None for slot in signature.outputs):
        return call
    give = _piece_giver(signature)

    def pieces(*inputs: Any) -> Iterator[Any]:
        yielded = call(*inputs)
        try:
            for piece in yielded:
                yield give(piece)
        finally:
            # Left alone, it would be closed when it is collected, which may be late.
            if hasattr(yielded, "close"):
                yielded.close()

    return pieces


def bind_async_stream(handler: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """As `bind_stream`, for a handler that returns an async iterator, or is to be awaited for an iterator."""
    call = bind(handler, _with_plain_outputs(signature))
    if all(slot.adapter is None for slot in signature.outputs):
        return call
    give = _piece_giver(signature)

    async def pieces(*inputs: Any) -> AsyncIterator[Any]:
        yielded = call(*inputs)
        if inspect.isawaitable(yielded):
            yielded = await yielded
        try:
            if isinstance(yielded, AsyncIterator):
                async for piece in yielded:
                    yield give(piece)
            else:
                for piece in yielded:
                    yield give(piece)
        finally:
            if hasattr(yielded, "aclose"):
                await yielded.aclose()
            elif hasattr(yielded, "close"):
                yielded.close()

    return pieces


def _with_plain_outputs(signature: Signature) -> Signature:
    """The same, with outputs that pass as they are: they are not there yet when the call returns."""
    return replace(signature, outputs=tuple(Slot(slot.tensor) for slot in signature.outputs))


def _piece_giver(signature: Signature) -> Callable[[Any], Any]:
    give = _giver(signature)

    def piece(yielded: Any) -> Any:
        if type(yielded) is not Final:
            return give(yielded)
        return yielded if yielded.outputs is None else Final(give(yielded.outputs))

    return piece


def _filler(signature: Signature) -> Callable[[Sequence[Any]], Sequence[Any]]:
    slots = signature.inputs
    if all(slot.adapter is None and slot.default is None for slot in slots):
        return lambda inputs: inputs

    def fill(inputs: Sequence[Any]) -> Sequence[Any]:
        values = [_value(slot, array) for slot, array in zip(slots, inputs, strict=False)]
        # The context follows the inputs.
        return [*values, *inputs[len(slots) :]]

    return fill


def _value(slot: Slot, array: Any) -> Any:
    if array is None:
        return slot.default
    return array if slot.adapter is None else slot.adapter.to_python(array, slot.tensor.name)


def _giver(signature: Signature) -> Callable[[Any], Any]:
    slots = signature.outputs
    if all(slot.adapter is None for slot in slots):
        return lambda returned: returned
    if len(slots) == 1:
        return lambda returned: _array(slots[0], returned)

    def give(returned: Any) -> tuple[Any, ...]:
        if not isinstance(returned, (tuple, list)) or len(returned) != len(slots):
            shown = type(returned).__name__
            size = f" of {len(returned)}" if isinstance(returned, (tuple, list)) else ""
            raise HandlerError(f"the handler returned a {shown}{size}, it declares a tuple of {len(slots)} outputs")
        return tuple(_array(slot, value) for slot, value in zip(slots, returned, strict=True))

    return give


def _array(slot: Slot, value: Any) -> Any:
    return value if slot.adapter is None else slot.adapter.to_array(value, slot.tensor.name)
