"""`TritonModelConfig`: a whole model's configuration, as clients and inference callables see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.compat.pytriton.model_config.common import DeviceKind, DynamicBatcher, ModelWarmup

__all__ = ["ResponseCache", "TensorSpec", "TritonModelConfig"]


@dataclass
class ResponseCache:
    """Whether answers are kept for equal requests."""

    enable: bool
    """Whether they are."""


@dataclass
class TensorSpec:
    """One input or output."""

    name: str
    """Its name on the wire."""
    shape: tuple[int, ...]
    """The sizes of its axes without the batch axis; -1 is any size."""
    dtype: Any
    """Its numpy type."""
    optional: bool | None = False
    """Whether a request may leave it out."""


@dataclass
class TritonModelConfig:
    """A whole model's configuration."""

    model_name: str
    """Its name on the wire."""
    model_version: int = 1
    """Its version on the wire."""
    max_batch_size: int = 4
    """The most rows in one call."""
    batching: bool = True
    """Whether every tensor has a batch axis in front."""
    batcher: DynamicBatcher | None = None
    """How requests share a call; None keeps them apart."""
    instance_group: dict[DeviceKind, int | None] = field(default_factory=dict)
    """How many instances there are, by kind of device."""
    decoupled: bool = False
    """Whether a request has any number of answers."""
    backend_parameters: dict[str, str] = field(default_factory=dict)
    """What else the configuration says."""
    inputs: Sequence[TensorSpec] | None = None
    """Its inputs, in order."""
    outputs: Sequence[TensorSpec] | None = None
    """Its outputs, in order."""
    response_cache: ResponseCache | None = None
    """Whether answers are kept."""
    model_warmup: list[ModelWarmup] | None = None
    """What is computed before it is ready."""

    @property
    def backend(self) -> str:
        """What Triton would run it with."""
        return "python"
