"""Deployments whose functions run in the server's process: no way to another one and back."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from penstock.compat.modelbit._function.frame_runner import FrameRunner
from penstock.compat.modelbit._function.runner import Runner
from penstock.compat.modelbit._function.source import function_here
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.integrations.modules import OwnModules

__all__ = ["Here"]


@dataclass
class _Loaded:
    """A deployment's function, and how many instances of its model use it."""

    runner: Runner
    modules: OwnModules
    users: int = 0


class Here:
    """What is loaded of them: one function for each, however many threads call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, int], _Loaded] = {}

    def load(self, deployment: Deployment) -> Runner:
        """Loads a deployment, or takes what another thread has loaded; `leave` gives it back.

        Raises:
            LoadError: it cannot be; or whatever its code raises.
        """
        with self._lock:
            found = self._loaded.get(deployment.key)
            if found is None:
                function, modules = function_here(deployment)
                kind = Runner if deployment.columns is None else FrameRunner
                found = self._loaded[deployment.key] = _Loaded(kind(deployment, function), modules)
            found.users += 1
            return found.runner

    def leave(self, deployment: Deployment) -> bool:
        """Lets go of it, once for each `load`. Whether nothing is loaded any more."""
        with self._lock:
            found = self._loaded[deployment.key]
            found.users -= 1
            if not found.users:
                del self._loaded[deployment.key]
                found.modules.forget()
            return not self._loaded

    def find(self, deployment: Deployment) -> Runner | None:
        """What runs it where a request arrives; None if it is not loaded, or joins requests."""
        found = None if deployment.joins else self._loaded.get(deployment.key)
        return None if found is None else found.runner
