"""Translation of a PyTriton model's declaration to Penstock's tensors, batching, queueing and cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock import Batching, Cache, Level, Queueing
from penstock import Tensor as PenstockTensor
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction
from penstock.compat.pytriton.model_config._datatypes import is_bytes
from penstock.compat.pytriton.model_config.common import check_priorities

__all__ = ["to_batching", "to_cache", "to_input", "to_output", "to_queueing"]

MAX_QUEUE = 2**31 - 1
"""Queue limit: PyTriton has no limit except the one of a queue policy."""


def to_output(tensor: Tensor, *, batch_axis: bool = False) -> PenstockTensor:
    """Returns an output. It is optional, because a callable may leave it out. See `to_input`."""
    return to_input(replace(tensor, optional=True), batch_axis=batch_axis)


def to_input(tensor: Tensor, *, batch_axis: bool = False) -> PenstockTensor:
    """Returns an input or output.

    Args:
        tensor: Declaration with a name.
        batch_axis: The declared shape lacks the batch axis.

    Raises:
        PyTritonBadParameterError: the type or shape is invalid.
    """
    try:
        datatype = bytes if is_bytes(tensor.dtype) else np.dtype(tensor.dtype)
        shape = (-1, *tensor.shape) if batch_axis else tuple(tensor.shape)
        return PenstockTensor(tensor.name, datatype, shape, optional=bool(tensor.optional))
    except (TypeError, ValueError) as error:
        raise PyTritonBadParameterError(str(error)) from error


def to_batching(config: ModelConfig) -> Batching | None:
    """Returns the batching of a model, or None without batching.

    Raises:
        PyTritonBadParameterError: a value is out of range.
    """
    if not config.batching:
        return None
    if config.max_batch_size < 1:
        raise PyTritonBadParameterError("The `max_batch_size` must be greater or equal to 1.")
    batcher: Any = config.batcher
    if not isinstance(batcher, DynamicBatcher):
        return Batching(config.max_batch_size, dynamic=False)
    try:
        return Batching(
            config.max_batch_size,
            max_delay=batcher.max_queue_delay_microseconds / 1e6,
            preferred_sizes=[int(size) for size in batcher.preferred_batch_size or ()],
        )
    except ValueError as error:
        raise PyTritonBadParameterError(str(error)) from error


def to_queueing(config: ModelConfig) -> Queueing | None:
    """Returns the queue policy of a model, or None for the default.

    Raises:
        PyTritonBadParameterError: a value is out of range.
    """
    batcher: Any = config.batcher
    if not config.batching or not isinstance(batcher, DynamicBatcher):
        return None
    levels, default, policies = batcher.priority_levels, batcher.default_priority_level, batcher.priority_queue_policy
    check_priorities(batcher)
    by_level = dict.fromkeys(range(1, max(levels, 1) + 1), batcher.default_queue_policy) | (policies or {})
    try:
        used = {level: _level(policy) for level, policy in by_level.items() if level and policy is not None}
        return Queueing(max(levels, 1), default_priority=default or None, levels=used) if levels or used else None
    except ValueError as error:
        raise PyTritonBadParameterError(str(error)) from error


def to_cache(config: ModelConfig) -> Cache | None:
    """Returns the response cache of a model. Decoupled models have none."""
    # PyTriton's clients number their requests, and no callable sees the numbers. So request ids are not in the key.
    return Cache(per_caller=False) if config.response_cache and not config.decoupled else None


def _level(policy: QueuePolicy) -> Level:
    return Level(
        max_size=policy.max_queue_size or None,
        timeout=policy.default_timeout_microseconds / 1e6 or None,
        on_timeout="delay" if policy.timeout_action is TimeoutAction.DELAY else "reject",
    )
