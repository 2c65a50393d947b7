"""A server as text and as a card for notebooks: its addresses, and its models with their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from penstock._model.describe import card, inputs_text, outputs_text, table

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["View", "html", "text"]

_MOST_IN_TEXT = 8
"""Most models in a text."""

_MOST_IN_CARD = 50
"""Most models in a card."""


@dataclass(frozen=True, slots=True)
class View:
    """A server at one moment."""

    phase: str
    """`not started`, `running` or `stopped`."""
    urls: Mapping[str, str]
    """URLs for clients of this machine, by protocol; empty unless it runs."""
    docs: str | None
    """URL of the page about its models; None for none."""
    models: Sequence[tuple[str, str, str]]
    """Name, version and state of each model. The state is empty unless the server runs."""
    definitions: Sequence[Definition]
    """Definitions of the models that it started with."""

    def listed(self) -> list[tuple[str, str, str]]:
        """The models without hidden ones, which serve routes of other models."""
        return [model for model in self.models if not model[0].startswith(":")]


def text(view: View) -> str:
    """The `repr` of a server."""
    models = view.listed()
    names = [name for name, _, _ in models]
    states = {f"{name}/{version}" if names.count(name) > 1 else name: state for name, version, state in models}
    shown = dict([*states.items()][:_MOST_IN_TEXT])
    more = f", and {len(states) - len(shown)} more" if len(states) > len(shown) else ""
    if view.phase != "running":
        return f"Server({view.phase}, models={[*shown]}{more})"
    urls = "".join(f"{name}={url!r}, " for name, url in view.urls.items())
    return f"Server({urls}models={shown}{more})"


def html(view: View) -> str:
    """The card of a server."""
    known = {(one.name, one.version): one for one in view.definitions}
    rows = [("model", "version", "inputs", "outputs", "state")]
    models = view.listed()
    for name, version, state in models[:_MOST_IN_CARD]:
        definition = known.get((name, version))
        tensors = ("", "") if definition is None else (inputs_text(definition), outputs_text(definition))
        rows.append((name, version, *tensors, state))
    urls = {**view.urls, **({"docs": view.docs} if view.docs else {})}
    parts = [f"<div>{name} {_link(url)}</div>" for name, url in urls.items()]
    parts += [table(rows)] if models else []
    if len(models) > _MOST_IN_CARD:
        parts.append(f"and {len(models) - _MOST_IN_CARD} more")
    return card(f"Penstock server, {view.phase}", *parts)


def _link(url: str) -> str:
    shown = escape(url)
    # In the colour of the page's text, which is readable in light and in dark themes.
    return f'<a href="{shown}" style="color:inherit">{shown}</a>' if url.startswith("http://") else shown
