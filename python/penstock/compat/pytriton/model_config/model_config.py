"""`ModelConfig`: the options of a bound model."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.compat.pytriton.model_config.common import DynamicBatcher, ModelWarmup

__all__ = ["ModelConfig"]


@dataclass
class ModelConfig:
    """Options of a bound model."""

    batching: bool = True
    """Every tensor has a batch axis in front."""
    max_batch_size: int = 4
    """Maximum rows in one call."""
    batcher: DynamicBatcher = field(default_factory=DynamicBatcher)
    """Dynamic batching. Any other value, such as None, runs each request alone."""
    response_cache: bool = False
    """Cache responses for equal requests."""
    decoupled: bool = False
    """A request may have any number of responses."""
    model_warmup: list[ModelWarmup] | None = None
    """Requests that each callable computes before the model is ready."""
