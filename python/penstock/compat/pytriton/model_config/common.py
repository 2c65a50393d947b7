"""Parts of a model's configuration, for bound and parsed models."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.model_config._warmup import (
    ModelWarmup,
    WarmupInput,
    generate_warmup_data,
    generate_warmup_requests,
)

__all__ = [
    "DeviceKind",
    "DynamicBatcher",
    "ModelWarmup",
    "QueuePolicy",
    "TimeoutAction",
    "WarmupInput",
    "generate_warmup_data",
    "generate_warmup_requests",
]


class DeviceKind(enum.Enum):
    """Triton's placement of instances. Here every instance is a thread of this process, for every kind."""

    KIND_AUTO = "KIND_AUTO"
    KIND_CPU = "KIND_CPU"
    KIND_GPU = "KIND_GPU"


class TimeoutAction(enum.Enum):
    """Action for a request that exceeds its queue timeout."""

    REJECT = "REJECT"
    """Reject the request."""
    DELAY = "DELAY"
    """Move the request behind those that have not timed out."""


@dataclass
class QueuePolicy:
    """Queue policy of a priority level."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    """Action for a request that exceeds its queue timeout."""
    default_timeout_microseconds: int = 0
    """Queue timeout in microseconds; 0 means none."""
    allow_timeout_override: bool = False
    """A request may set a shorter timeout."""
    max_queue_size: int = 0
    """Maximum queue size; 0 means no limit."""


@dataclass
class DynamicBatcher:
    """Dynamic batching: how requests share a call."""

    max_queue_delay_microseconds: int = 0
    """Maximum wait of the oldest request for a larger batch, in microseconds."""
    preferred_batch_size: list[int] | None = None
    """Preferred row counts of a batch."""
    preserve_ordering: bool = False
    """Send responses in the order of the requests."""
    priority_levels: int = 0
    """Number of priority levels; 0 means none. Level 1 runs first."""
    default_priority_level: int = 0
    """Level of requests without a priority; 0 means the lowest."""
    default_queue_policy: QueuePolicy | None = None
    """Queue policy of levels without a separate policy."""
    priority_queue_policy: dict[int, QueuePolicy] | None = None
    """Queue policy by level."""


def is_dynamic(batcher: Any) -> bool:
    """True if requests may share a call: for a `DynamicBatcher` only."""
    return isinstance(batcher, DynamicBatcher)


def check_priorities(batcher: DynamicBatcher) -> None:
    """Checks the priority levels of a batcher.

    Raises:
        PyTritonBadParameterError: a level does not exist.
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
