"""How a handler is called: its declared tensors, and how their values meet its parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._spec.tensor import Tensor

if TYPE_CHECKING:
    from penstock._handler.adapters import Adapter
    from penstock._spec.definition import Document

__all__ = ["Signature", "Slot", "documents"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One declared tensor and how its value meets the handler."""

    tensor: Tensor
    adapter: Adapter | None = None
    """None: the array goes as it is."""
    default: Any = None
    """What the handler gets for an absent input."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a handler takes and returns."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    positional: tuple[int, ...]
    """The handler's positional arguments, as indexes of `inputs` (of the request, where it takes that), after which is
    the context."""
    keywords: tuple[tuple[str, int], ...]
    """The handler's keyword arguments, likewise."""
    wants_context: bool
    open: bool = False
    """Whether it takes requests as they are, its only argument but for the context. It has no inputs and outputs."""
    shown: tuple[tuple[Slot, ...], tuple[Slot, ...]] = ((), ())
    """What the metadata of a model that takes requests as they are says of its inputs and outputs."""

    @property
    def tensors(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Inputs and outputs, as metadata has them."""
        inputs, outputs = self.shown if self.open else (self.inputs, self.outputs)
        return tuple(slot.tensor for slot in inputs), tuple(slot.tensor for slot in outputs)

    @property
    def is_direct(self) -> bool:
        """Whether the handler can be called as it is: declared order, arrays only, no defaults to fill."""
        plain = all(slot.adapter is None and slot.default is None for slot in (*self.inputs, *self.outputs))
        arguments = len(self.inputs) + self.open + self.wants_context
        in_order = self.positional == tuple(range(arguments))
        return plain and in_order and not self.keywords


def documents(slots: Iterable[Slot]) -> dict[str, Document]:
    """What the tensors that carry a JSON document hold, by name."""
    return {slot.tensor.name: slot.adapter.document for slot in slots if slot.adapter and slot.adapter.document}
