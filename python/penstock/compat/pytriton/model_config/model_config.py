"""`ModelConfig`: what is said of a model when it is bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.compat.pytriton.model_config.common import DynamicBatcher, ModelWarmup

__all__ = ["ModelConfig"]


@dataclass
class ModelConfig:
    """What is said of a model when it is bound."""

    batching: bool = True
    """Whether every tensor has a batch axis in front."""
    max_batch_size: int = 4
    """The most rows in one call."""
    batcher: DynamicBatcher = field(default_factory=DynamicBatcher)
    """How requests share a call; anything but a `DynamicBatcher`, such as None, keeps them apart."""
    response_cache: bool = False
    """Whether answers are kept for equal requests."""
    decoupled: bool = False
    """Whether a request has any number of answers."""
    model_warmup: list[ModelWarmup] | None = None
    """What each callable computes before the model is ready."""
