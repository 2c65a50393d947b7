"""Configuration of models: tensors, batching and queueing."""

from __future__ import annotations

from penstock.compat.pytriton.model_config.common import DeviceKind, DynamicBatcher, QueuePolicy, TimeoutAction
from penstock.compat.pytriton.model_config.model_config import ModelConfig
from penstock.compat.pytriton.model_config.tensor import Tensor

__all__ = ["DeviceKind", "DynamicBatcher", "ModelConfig", "QueuePolicy", "Tensor", "TimeoutAction"]
