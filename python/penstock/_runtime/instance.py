"""A model as a single instance in a child process computes it: one call at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock._spec.definition import Definition, nothing_to_close

__all__ = ["alone"]


def alone(definition: Definition, built: Callable[[], object] = nothing_to_close) -> Definition:
    """A definition as one instance computes it that knows of no others: one call at a time.

    Args:
        definition: What the model is.
        built: Called when its handler is there.
    """
    factory = definition.factory

    def build() -> Any:
        if definition.concurrency is None:
            handler = factory()
        else:
            from penstock._runtime.blocking import blocking

            handler = blocking(factory, streams=definition.streams)
        built()
        return handler

    return replace(definition, factory=build, processes=None, concurrency=None)
