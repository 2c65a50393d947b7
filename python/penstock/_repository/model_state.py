"""Load state of one model: versions that serve, that failed, and that a client unloaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["ModelState", "ReadyVersion"]


@dataclass(frozen=True, slots=True)
class ReadyVersion:
    """A version whose instances are built."""

    version: str
    fingerprint: object
    model: _core.PreparedModel
    explainer: _core.PreparedModel | None

    @classmethod
    def build(cls, models: _core.ModelRegistry, definition: Definition, fingerprint: object) -> ReadyVersion:
        """Builds a version, and its explainer before it."""
        explainer = models.prepare(definition.explainer) if definition.explainer else None
        return cls(definition.version, fingerprint, models.prepare(definition), explainer)


@dataclass(slots=True)
class ModelState:
    """Load state of one model."""

    serving: dict[str, object] = field(default_factory=dict)
    """Versions that serve, with the fingerprints of their sources."""
    failed: dict[str, tuple[object, str]] = field(default_factory=dict)
    """Versions that could not be loaded, with the fingerprints of their sources and the reasons."""
    unloaded: list[str] = field(default_factory=list)
    """Versions that a client unloaded."""

    refused: dict[str, str] = field(default_factory=dict)
    """Versions that serve, but refuse requests for a while, with the reasons."""

    def set_refusal(self, version: str | None, refusal: str | None) -> None:
        """Sets the reason for which a served version, or each, refuses requests; None clears it."""
        for one in self.serving if version is None else [version]:
            if refusal is None:
                self.refused.pop(one, None)
            else:
                self.refused[one] = refusal

    def texts(self) -> dict[str, str]:
        """The state of each version in words, with the reason where it does not take requests."""
        texts = dict.fromkeys(self.unloaded, "unloaded")
        texts |= {version: f"failed: {reason}" for version, (_, reason) in self.failed.items()}
        for version in self.serving:
            reason = self.refused.get(version)
            texts[version] = "ready" if reason is None else f"not ready: {reason}".removesuffix(": ")
        return texts

    def is_current(self, version: str, fingerprint: object) -> bool:
        """True if this form of a version has been loaded, or has failed, already."""
        return fingerprint in (self.serving.get(version, self), self.failed.get(version, (self,))[0])

    def is_unloaded(self) -> bool:
        """True if a client has unloaded the model."""
        return bool(self.unloaded) and not self.serving

    def index_entries(self, loading: Iterable[str]) -> list[tuple[str, bool, str]]:
        """Index entries of versions that do not serve: version, whether it is being loaded, reason."""
        entries = {version: (version, False, "unloaded") for version in self.unloaded}
        entries |= {version: (version, False, reason) for version, (_, reason) in self.failed.items()}
        entries |= {version: (version, True, "") for version in loading}
        return [*entries.values()]
