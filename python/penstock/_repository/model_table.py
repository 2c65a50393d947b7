"""Models of a server by name: load states, changes of what serves, and the repository index."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from penstock._repository.model_state import ModelState
from penstock.errors import AlreadyExists

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.model_state import ReadyVersion

__all__ = ["ModelTable"]

_log = logging.getLogger("penstock.repository")


class ModelTable:
    """Load states of a server's own models. Models of attached processes are not in it."""

    def __init__(self) -> None:
        self.states: dict[str, ModelState] = {}
        self.attached: frozenset[str] = frozenset()
        """Names that attached processes have reserved; the server does not load models of these names."""
        self._models: _core.ModelRegistry | None = None
        self._replaced = 0
        """Versions that were swapped out, and whose code may still be in memory."""

    def connect(self, models: _core.ModelRegistry) -> None:
        """Connects the table to the models of a server that has started."""
        self._models = models

    @property
    def models(self) -> _core.ModelRegistry:
        """The models of the running server."""
        assert self._models is not None, "the server has not started"
        return self._models

    @property
    def started(self) -> bool:
        """True if the server has started."""
        return self._models is not None

    @property
    def has_garbage(self) -> bool:
        """True if code of replaced versions may have to be freed."""
        return self._replaced > 0

    def has(self, name: str) -> bool:
        """True if a model of that name serves, or could be loaded."""
        return name in self.states

    def state(self, name: str) -> ModelState:
        """The load state of a model; a new one for an unknown name."""
        return self.states.setdefault(name, ModelState())

    def check_not_attached(self, name: str) -> None:
        """Checks that no other process has attached a model of that name.

        Raises:
            AlreadyExists: another process has attached it.
        """
        if name in self.attached:
            raise AlreadyExists(f"model '{name}' is attached by another process, and only that can take it away")

    def claim(self, name: str) -> None:
        """Reserves a name for a model of the server.

        Raises:
            AlreadyExists: another process has attached a model of that name.
        """
        is_known = name in self.states
        # Reserve first, check afterwards: attaching does the same, so one of the two sees the other.
        self.state(name)
        try:
            self.check_not_attached(name)
        except AlreadyExists:
            if not is_known:
                del self.states[name]
            raise

    def set_refusal(self, name: str, version: str | None, refusal: str | None) -> None:
        """Sets a reason for which a model, in one version or in all, refuses requests; None clears it.

        Raises:
            NotFound: there is no such model or version.
            Unavailable: it is not loaded.
        """
        self.models.set_refusal(name, version, refusal)
        if (state := self.states.get(name)) is not None:
            state.set_refusal(version, refusal)

    def entries(self) -> list[tuple[str, str, str]]:
        """Name, version and state of each version, with the reason where it does not take requests."""
        found = [
            (name, version, text) for name, state in [*self.states.items()] for version, text in state.texts().items()
        ]
        return [*found, *((name, "", "attached") for name in sorted(self.attached))]

    def swap(self, name: str, ready: list[ReadyVersion], keep: Collection[str]) -> None:
        """Replaces the versions of a model: those in `ready` start to serve, and of the others only `keep` go on."""
        state, keep = self.state(name), [*keep]
        self._replaced += len(state.serving.keys() - set(keep)) + sum(one.version in state.serving for one in ready)
        # An explainer starts before its model, and ends after it.
        explainer, explainers = f"{name}:explain", [one.explainer for one in ready if one.explainer]
        if explainers:
            self.models.swap(explainer, explainers, [*state.serving])
        self.models.swap(name, [one.model for one in ready], keep)
        if self.models.serving(explainer):
            self.models.swap(explainer, [], [one.version for one in ready if one.explainer] + keep)
        self.models.forget(explainer)
        state.serving = {version: mark for version, mark in state.serving.items() if version in keep}
        for one in ready:
            state.serving[one.version] = one.fingerprint
            # A model that is loaded again is ready.
            state.refused.pop(one.version, None)
            _log.info("model '%s' version '%s' is loaded", name, one.version)
        if ready:
            state.unloaded = []

    def forget(self, name: str) -> None:
        """Removes a model from the index. No version of it may serve."""
        self.states.pop(name, None)
        self.models.forget(name)

    def describe(self, name: str, loading: Iterable[str] = ()) -> None:
        """Updates a model's entries in the index."""
        self.models.set_states(name, self.state(name).index_entries(loading))

    def announce(self, names: Collection[str]) -> None:
        """Adds models that can be loaded to the index, and removes others that do not serve."""
        for name in names:
            if name not in self.states:
                self.states[name] = ModelState()
                self.describe(name)
        for name in [*self.states]:
            if name not in names and not self.states[name].serving:
                self.forget(name)

    def collect_garbage(self) -> None:
        """Frees the code of replaced versions once they have ended: a module and its functions refer to each other."""
        if self._replaced and (leaving := self.models.draining_count()) < self._replaced:
            gc.collect()
            self._replaced = leaving
