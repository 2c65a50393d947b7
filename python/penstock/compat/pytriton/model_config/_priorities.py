"""What levels of priority a `DynamicBatcher` may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError

if TYPE_CHECKING:
    from penstock.compat.pytriton.model_config.common import DynamicBatcher

__all__ = ["check_priorities"]


def check_priorities(batcher: DynamicBatcher) -> None:
    """Checks that the levels that are named are there.

    Raises:
        PyTritonBadParameterError: one is not.
    """
    levels = batcher.priority_levels
    if batcher.default_priority_level and batcher.default_priority_level > levels:
        raise PyTritonBadParameterError(f"The `default_priority_level` must be between 1 and {levels}.")
    if batcher.priority_queue_policy and not levels:
        raise PyTritonBadParameterError(
            "Provide the `priority_levels` if you want to define `priority_queue_policy` for Dynamic Batching."
        )
    for level in batcher.priority_queue_policy or ():
        if level < 0 or level > levels:
            raise PyTritonBadParameterError(
                f"Invalid `priority`={level} provided. The value must be between 1 and {levels}."
            )
