"""Records of a handler's signature: its tensors, and the parameters that take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._spec.tensor import Tensor

if TYPE_CHECKING:
    from penstock._handler.adapters import Adapter
    from penstock._spec.definition import Document

__all__ = ["BoundTensor", "Signature", "documents", "shown_types"]


@dataclass(frozen=True, slots=True)
class BoundTensor:
    """A declared tensor, and the conversion between its array and the handler's value."""

    tensor: Tensor
    adapter: Adapter | None = None
    """None: the handler takes or returns the array itself."""
    default: Any = None
    """The handler's value for an absent input."""
    hint: str = ""
    """The type of the values, close to its source; empty for arrays."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a handler, and the arguments of its call."""

    inputs: tuple[BoundTensor, ...]
    outputs: tuple[BoundTensor, ...]
    positional: tuple[int, ...]
    """Positional arguments, as indexes of `inputs`. The context has the index after the last input. A raw request has
    the index 0."""
    keywords: tuple[tuple[str, int], ...]
    """Keyword arguments by name, as indexes of the same kind."""
    wants_context: bool
    open: bool = False
    """True if the handler takes raw requests. It then has no inputs and outputs."""
    shown: tuple[tuple[BoundTensor, ...], tuple[BoundTensor, ...]] = ((), ())
    """Inputs and outputs in the metadata of a raw-request model."""

    @property
    def tensors(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Inputs and outputs in the model's metadata."""
        inputs, outputs = self.shown if self.open else (self.inputs, self.outputs)
        return tuple(bound.tensor for bound in inputs), tuple(bound.tensor for bound in outputs)

    @property
    def is_plain(self) -> bool:
        """True if all inputs are plain values, which JSON, forms and files have without datatypes and shapes."""
        return bool(self.inputs) and all(bound.adapter is not None for bound in self.inputs)

    @property
    def is_direct(self) -> bool:
        """True if the handler can be called without a wrapper: declared order, arrays only, no defaults."""
        plain = all(bound.adapter is None and bound.default is None for bound in (*self.inputs, *self.outputs))
        arguments = len(self.inputs) + self.open + self.wants_context
        in_order = self.positional == tuple(range(arguments))
        return plain and in_order and not self.keywords


def shown_types(bound_tensors: Iterable[BoundTensor]) -> dict[str, str]:
    """The types of plain values, close to their source, by name of the tensor."""
    return {bound.tensor.name: bound.hint for bound in bound_tensors if bound.hint}


def documents(bound_tensors: Iterable[BoundTensor]) -> dict[str, Document]:
    """The documents of tensors that carry JSON, by name."""
    return {
        bound.tensor.name: bound.adapter.document for bound in bound_tensors if bound.adapter and bound.adapter.document
    }
