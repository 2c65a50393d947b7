"""What a model's configuration is made of, whoever reads it."""

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
    """Where Triton would place a model's instances. Here they are threads of this process, whatever it says."""

    KIND_AUTO = "KIND_AUTO"
    KIND_CPU = "KIND_CPU"
    KIND_GPU = "KIND_GPU"


class TimeoutAction(enum.Enum):
    """What becomes of a request that has waited for too long."""

    REJECT = "REJECT"
    """It is refused."""
    DELAY = "DELAY"
    """It goes behind those that have not."""


@dataclass
class QueuePolicy:
    """How requests wait."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    """What becomes of one that has waited for too long."""
    default_timeout_microseconds: int = 0
    """How long one may wait; 0 for as long as it takes."""
    allow_timeout_override: bool = False
    """Whether a request may name a shorter time itself."""
    max_queue_size: int = 0
    """The most that wait; 0 for any number."""


@dataclass
class DynamicBatcher:
    """How requests share a call."""

    max_queue_delay_microseconds: int = 0
    """How long the oldest request may wait for company."""
    preferred_batch_size: list[int] | None = None
    """Sizes that batches are cut to."""
    preserve_ordering: bool = False
    """Whether answers keep the order of the requests."""
    priority_levels: int = 0
    """How many levels of priority there are; 0 for none. Level 1 goes first."""
    default_priority_level: int = 0
    """The level of requests that name none; 0 for the lowest."""
    default_queue_policy: QueuePolicy | None = None
    """How requests wait, where their level has no policy of its own."""
    priority_queue_policy: dict[int, QueuePolicy] | None = None
    """How the requests of single levels wait."""


def is_dynamic(batcher: Any) -> bool:
    """Whether requests may share a call; anything but a `DynamicBatcher` keeps them apart."""
    return isinstance(batcher, DynamicBatcher)


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
