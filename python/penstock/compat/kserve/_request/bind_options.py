"""`BindOptions`: options of a KServe model that is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock import Batching, Processes

if TYPE_CHECKING:
    from penstock.compat.kserve._model.draining import InstanceCount
    from penstock.compat.kserve._model.model_transfer import PackedModel

__all__ = ["BindOptions", "LoopHooks"]


class LoopHooks(Protocol):
    """Callbacks of the event loop on which an async model's requests run."""

    def begin(self) -> None:
        """Runs on the loop before the first request."""

    async def end(self) -> None:
        """Runs on the loop after the last request."""


@dataclass(frozen=True)
class BindOptions:
    """Options of a KServe model that is served."""

    name: str | None = None
    """The name to serve the model under; None for its own."""
    instances: int | Processes = 16
    """Concurrent calls of a plain model, on threads; or the processes that compute."""
    batching: Batching | None = None
    """Batching of rows of several requests; None for one request per call."""
    latency_logging: bool | None = None
    """Log a line per request; None for the model's own setting."""
    exact_content_types: bool = False
    """Compare V1 content types exactly, as KServe does, instead of without parameters and case."""
    max_concurrency: int = 1024
    """Concurrent requests of an async model."""
    max_queue: int = 4096
    """The most requests that wait."""
    loop_hooks: LoopHooks | None = None
    """Callbacks of an async model's event loop in this process."""
    instance_count: InstanceCount | None = None
    """Counts the instances that run in this process."""
    packed: PackedModel | None = None
    """The pickled model, for instances that are processes."""

    @property
    def threads(self) -> int:
        """Threads for the plain stages of an async model."""
        return self.instances if isinstance(self.instances, int) else 1
