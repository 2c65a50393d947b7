"""Functions loaded in the server's process, which saves the transfer to a worker process."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from penstock.compat.modelbit._function.frame_runner import FrameRunner
from penstock.compat.modelbit._function.runner import Runner
from penstock.compat.modelbit._function.source import load_in_process
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.integrations.modules import IsolatedModules

__all__ = ["InProcessFunctions"]


@dataclass
class _Loaded:
    """A loaded function and the number of model instances that use it."""

    runner: Runner
    modules: IsolatedModules
    users: int = 0


class InProcessFunctions:
    """Loaded functions: one per deployment, shared by all threads that call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, int], _Loaded] = {}

    def load(self, deployment: Deployment) -> Runner:
        """Loads a deployment's function unless it is loaded, and counts its user; `unload` undoes both.

        Raises:
            LoadError: source.py or the function is missing.
            Exception: the deployment's code raised it.
        """
        with self._lock:
            found = self._loaded.get(deployment.key)
            if found is None:
                function, modules = load_in_process(deployment)
                kind = Runner if deployment.columns is None else FrameRunner
                found = self._loaded[deployment.key] = _Loaded(kind(deployment, function), modules)
            found.users += 1
            return found.runner

    def unload(self, deployment: Deployment) -> bool:
        """Releases one use, and the function with its last use. Returns whether no function is loaded any more."""
        with self._lock:
            found = self._loaded[deployment.key]
            found.users -= 1
            if not found.users:
                del self._loaded[deployment.key]
                found.modules.forget()
            return not self._loaded

    def find(self, deployment: Deployment) -> Runner | None:
        """Returns the runner for direct calls; None if the function is not loaded, or its requests are batched."""
        found = None if deployment.batched else self._loaded.get(deployment.key)
        return None if found is None else found.runner
