"""`TritonModelConfig`: a model's complete configuration, for clients and inference callables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.compat.pytriton.model_config.common import DeviceKind, DynamicBatcher, ModelWarmup

__all__ = ["ResponseCache", "TensorSpec", "TritonModelConfig"]


@dataclass
class ResponseCache:
    """Response cache of a model."""

    enable: bool
    """Cache responses for equal requests."""


@dataclass
class TensorSpec:
    """An input or output."""

    name: str
    """Name on the wire."""
    shape: tuple[int, ...]
    """Shape without the batch axis; -1 means any size."""
    dtype: Any
    """numpy type."""
    optional: bool | None = False
    """A request may leave the input out."""


@dataclass
class TritonModelConfig:
    """Complete configuration of a model."""

    model_name: str
    """Name on the wire."""
    model_version: int = 1
    """Version on the wire."""
    max_batch_size: int = 4
    """Maximum rows in one call."""
    batching: bool = True
    """Every tensor has a batch axis in front."""
    batcher: DynamicBatcher | None = None
    """Dynamic batching; None runs each request alone."""
    instance_group: dict[DeviceKind, int | None] = field(default_factory=dict)
    """Number of instances by kind of device."""
    decoupled: bool = False
    """A request may have any number of responses."""
    backend_parameters: dict[str, str] = field(default_factory=dict)
    """Other parameters of the configuration."""
    inputs: Sequence[TensorSpec] | None = None
    """Inputs, in order."""
    outputs: Sequence[TensorSpec] | None = None
    """Outputs, in order."""
    response_cache: ResponseCache | None = None
    """Response cache."""
    model_warmup: list[ModelWarmup] | None = None
    """Requests that are computed before the model is ready."""

    @property
    def backend(self) -> str:
        """Name of Triton's backend."""
        return "python"
