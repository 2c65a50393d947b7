"""Lifecycle policies: a server starts on entry into its context, or in `run` and `serve`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DefaultTritonLifecyclePolicy", "TritonLifecyclePolicy", "VertextAILifecyclePolicy"]


@dataclass
class TritonLifecyclePolicy:
    """Time at which a server starts."""

    launch_triton_on_startup: bool = True
    """Starts on entry into the context, and loads models as they are bound."""
    local_model_store: bool = False
    """Location of Triton's model store. It has no effect, because Penstock has no model store."""


DefaultTritonLifecyclePolicy = TritonLifecyclePolicy()
"""Starts on entry into the context."""

VertextAILifecyclePolicy = TritonLifecyclePolicy(launch_triton_on_startup=False, local_model_store=True)
"""Starts after all models are bound. Vertex AI needs this, because its first failed health check ends the container."""
