"""Placement of a model's instances in processes: processes to start, or channels of an attached process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core

__all__ = ["Channels", "Spawning"]


@dataclass(frozen=True, slots=True)
class Spawning:
    """Processes to start for a model. Rust reads these attributes by name."""

    program: str
    arguments: list[str]
    environments: list[list[tuple[str, str]]]
    """Variables that are added to the environment of each instance."""
    payload: bytes
    """Payload of a process: see `penstock._worker.payload`."""
    hang_after: float | None
    abandoned_after: float | None
    max_rss: int | None
    max_age: float | None
    max_batches: int | None


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels to the instances of an attached model. Rust reads these attributes by name."""

    channels: list[_core.InstanceChannel]
