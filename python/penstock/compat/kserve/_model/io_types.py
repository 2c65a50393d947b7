"""What a model says of its inputs and outputs, as metadata over gRPC shows it."""

from __future__ import annotations

import inspect
from typing import Any

from penstock import Tensor
from penstock.compat.kserve.logging import logger

__all__ = ["shown"]


def shown(model: Any, name: str) -> list[Tensor]:
    """What `get_input_types` or `get_output_types` says now; nothing of what no metadata can show.

    Args:
        model: Any model.
        name: The method.
    """
    method = getattr(model, name, None)
    if method is None:
        return []
    try:
        found = _at_once(method())
        return [Tensor(one["name"], one["datatype"], one["shape"]) for one in found or ()]
    except Exception as error:
        # Metadata is for readers: nothing fails for it. Over REST the model's own error is the answer.
        logger.debug("%s of %s shows nothing over gRPC: %r", name, getattr(model, "name", model), error)
        return []


def _at_once(found: Any) -> Any:
    """What a method gave; of one that is awaited, what it gives without waiting for anything."""
    if not inspect.isawaitable(found):
        return found
    steps = found.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    finally:
        if inspect.iscoroutine(found):
            found.close()
    return None
