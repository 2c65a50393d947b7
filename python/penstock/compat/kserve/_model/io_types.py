"""Input and output declarations of a model, for metadata over gRPC."""

from __future__ import annotations

import inspect
from typing import Any

from penstock import Tensor
from penstock.compat.kserve.logging import logger

__all__ = ["declared_tensors"]


def declared_tensors(model: Any, method_name: str) -> list[Tensor]:
    """Returns what `get_input_types` or `get_output_types` declares now; empty if metadata cannot express it.

    Args:
        model: Any model.
        method_name: The method.
    """
    method = getattr(model, method_name, None)
    if method is None:
        return []
    try:
        declared = _without_waiting(method())
        return [Tensor(one["name"], one["datatype"], one["shape"]) for one in declared or ()]
    except Exception as error:
        # Metadata is informative: nothing fails for it. Over REST the model's own error is the response.
        logger.debug("%s of %s has no metadata over gRPC: %r", method_name, getattr(model, "name", model), error)
        return []


def _without_waiting(returned: Any) -> Any:
    """Returns a method's result; of an awaitable the result if it never suspends, else None."""
    if not inspect.isawaitable(returned):
        return returned
    steps = returned.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    finally:
        if inspect.iscoroutine(returned):
            returned.close()
    return None
