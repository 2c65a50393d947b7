"""The callable that an instance runs. A handler of plain arrays is called as it is, with nothing around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock._generators import Driver
from penstock._signature import Signature, Slot
from penstock.errors import HandlerError
from penstock.streaming import Final


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


def bind_stream(handler: Callable[..., Any], signature: Signature, driver: Driver) -> Callable[..., Iterator[Any]]:
    """As `bind`, for a handler that returns an iterator of answers, plain or async."""
    plain = replace(signature, outputs=tuple(Slot(slot.tensor) for slot in signature.outputs))
    call = bind(handler, plain)
    if all(slot.adapter is None for slot in signature.outputs):
        return lambda *inputs: driver.iterate(call(*inputs))
    give = _giver(signature)

    def pieces(*inputs: Any) -> Iterator[Any]:
        yielded = driver.iterate(call(*inputs))
        try:
            for piece in yielded:
                if type(piece) is not Final:
                    yield give(piece)
                else:
                    yield piece if piece.outputs is None else Final(give(piece.outputs))
        finally:
            # Left alone, it would be closed when it is collected, which may be late.
            if hasattr(yielded, "close"):
                yielded.close()

    return pieces


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
