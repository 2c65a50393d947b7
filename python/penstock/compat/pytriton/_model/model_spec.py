"""A PyTriton model's declaration in Penstock's terms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock import Batching, Cache, Level, Queueing
from penstock import Tensor as Declared
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction
from penstock.compat.pytriton.model_config._datatypes import is_bytes
from penstock.compat.pytriton.model_config.common import check_priorities

__all__ = ["batching_of", "cache_of", "output_of", "queueing_of", "tensor_of"]

NO_LIMIT = 2**31 - 1
"""Of what waits: PyTriton has no limit but what a policy says."""


def output_of(tensor: Tensor, *, batch_axis: bool = False) -> Declared:
    """An output, which a callable may leave out; as `tensor_of`."""
    return tensor_of(replace(tensor, optional=True), batch_axis=batch_axis)


def tensor_of(tensor: Tensor, *, batch_axis: bool = False) -> Declared:
    """An input or output.

    Args:
        tensor: What is declared, with a name.
        batch_axis: Whether the axis of a batch is one of its own.

    Raises:
        PyTritonBadParameterError: its type or shape is none that a tensor can have.
    """
    try:
        datatype = bytes if is_bytes(tensor.dtype) else np.dtype(tensor.dtype)
        shape = (-1, *tensor.shape) if batch_axis else tuple(tensor.shape)
        return Declared(tensor.name, datatype, shape, optional=bool(tensor.optional))
    except (TypeError, ValueError) as error:
        raise PyTritonBadParameterError(str(error)) from error


def batching_of(config: ModelConfig) -> Batching | None:
    """How requests share a call.

    Raises:
        PyTritonBadParameterError: a value is out of its range.
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


def queueing_of(config: ModelConfig) -> Queueing | None:
    """How requests wait.

    Raises:
        PyTritonBadParameterError: a value is out of its range.
    """
    batcher: Any = config.batcher
    if not config.batching or not isinstance(batcher, DynamicBatcher):
        return None
    levels, default, policies = batcher.priority_levels, batcher.default_priority_level, batcher.priority_queue_policy
    check_priorities(batcher)
    known = dict.fromkeys(range(1, max(levels, 1) + 1), batcher.default_queue_policy) | (policies or {})
    try:
        each = {level: _level(policy) for level, policy in known.items() if level and policy is not None}
        return Queueing(max(levels, 1), default_priority=default or None, levels=each) if levels or each else None
    except ValueError as error:
        raise PyTritonBadParameterError(str(error)) from error


def cache_of(config: ModelConfig) -> Cache | None:
    """How answers are kept. Those of a decoupled model never are."""
    # PyTriton clients number their requests, and no callable sees these numbers.
    return Cache(per_caller=False) if config.response_cache and not config.decoupled else None


def _level(policy: QueuePolicy) -> Level:
    return Level(
        max_size=policy.max_queue_size or None,
        timeout=policy.default_timeout_microseconds / 1e6 or None,
        on_timeout="delay" if policy.timeout_action is TimeoutAction.DELAY else "reject",
    )
