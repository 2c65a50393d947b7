"""Definition of a model for a process that runs a single instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock._spec.definition import Definition, nothing_to_close

__all__ = ["for_single_instance"]


def for_single_instance(definition: Definition, built: Callable[[], object] = nothing_to_close) -> Definition:
    """A definition for one instance without others: blocking, one call at a time.

    Args:
        definition: The model's definition.
        built: Called when the handler is built.
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
