"""When a server starts: on entry into its context, or with `run` and `serve`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DefaultTritonLifecyclePolicy", "TritonLifecyclePolicy", "VertextAILifecyclePolicy"]


@dataclass
class TritonLifecyclePolicy:
    """When a server starts."""

    launch_triton_on_startup: bool = True
    """Whether it starts on entry into its context, and models are loaded as they are bound."""
    local_model_store: bool = False
    """Where a model store would be. There is none here, so it changes nothing."""


DefaultTritonLifecyclePolicy = TritonLifecyclePolicy()
"""The server starts on entry."""

VertextAILifecyclePolicy = TritonLifecyclePolicy(launch_triton_on_startup=False, local_model_store=True)
"""The server starts once all models are bound, as Vertex AI wants it: its first health check may end the container."""
