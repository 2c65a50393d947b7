"""Short descriptions of models: tensors and batching, for the banner of a server and for cards in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._spec.batching import Batching, Iterative
    from penstock._spec.definition import Definition
    from penstock._spec.tensor import Tensor

__all__ = ["batching_text", "card", "inputs_text", "model_card", "outputs_text", "table"]

_LINE = "1px solid rgba(128,128,128,.35)"
"""Border that is visible on light and on dark pages."""


def inputs_text(definition: Definition) -> str:
    """The inputs of a model, as the handler has them, or as datatypes and shapes."""
    return _tensors(definition, definition.inputs, definition.input_types)


def outputs_text(definition: Definition) -> str:
    """The outputs of a model."""
    return _tensors(definition, definition.outputs, definition.output_types)


def batching_text(batching: Batching | None, iterative: Iterative | None = None) -> str:
    """The batching of a model in a few words."""
    if batching is None:
        return "off"
    rows = f"up to {batching.max_size} row{'s' if batching.max_size > 1 else ''}"
    if iterative is not None:
        return f"{rows}, step by step"
    delay = f", {batching.max_delay * 1000:g} ms delay" if batching.max_delay else ""
    return f"{rows}{delay}" if batching.dynamic else f"{rows}, not joined"


def model_card(definition: Definition) -> str:
    """The card of a model."""
    cells = (
        inputs_text(definition),
        outputs_text(definition),
        batching_text(definition.batching, definition.iterative),
    )
    return card(f"{definition.name}, version {definition.version}", table([("inputs", "outputs", "batching"), cells]))


def card(title: str, *parts: str) -> str:
    """A card for notebooks, as HTML in the colours of the page.

    Args:
        title: The title, as text.
        parts: What follows, as HTML.
    """
    style = f"display:inline-block;border:{_LINE};border-radius:6px;padding:.5em .8em;line-height:1.5;font-size:90%"
    return f'<div style="{style}"><b>{escape(title)}</b>{"".join(parts)}</div>'


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML, whose first row has the headings.

    Args:
        rows: Cells, as text.
    """
    style = f"text-align:left;padding:.1em 1em .1em 0;border-top:{_LINE}"
    lines = []
    for place, row in enumerate(rows):
        tag = "td" if place else "th"
        lines.append(
            "".join(f'<{tag} style="{style if place else "text-align:left"}">{escape(one)}</{tag}>' for one in row)
        )
    return f'<table style="border-collapse:collapse">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def _tensors(definition: Definition, tensors: Sequence[Tensor], types: Mapping[str, str]) -> str:
    if definition.open and not tensors:
        return "any"
    batched = definition.batching is not None
    return ", ".join(_tensor(tensor, types.get(tensor.name), batched=batched) for tensor in tensors) or "-"


def _tensor(tensor: Tensor, hint: str | None, *, batched: bool) -> str:
    """Name and type of a tensor: as the handler has it, or datatype and shape."""
    shown = hint or f"{tensor.datatype} {tensor.wire_shape(batched=batched)}"
    return f"{tensor.name}{'?' if tensor.optional else ''} {shown}"
