"""What has been done about one model so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["Known", "Ready"]


@dataclass(frozen=True, slots=True)
class Ready:
    """A version whose instances are built."""

    version: str
    mark: object
    model: _core.Prepared
    explainer: _core.Prepared | None

    @classmethod
    def of(cls, models: _core.Models, definition: Definition, mark: object) -> Ready:
        """Builds a version, and its explainer before it."""
        explainer = models.prepare(definition.explainer) if definition.explainer else None
        return cls(definition.version, mark, models.prepare(definition), explainer)


@dataclass(slots=True)
class Known:
    """What has been done about one model."""

    marks: dict[str, object] = field(default_factory=dict)
    """Of the versions that serve: what they were made of."""
    failed: dict[str, tuple[object, str]] = field(default_factory=dict)
    """Of those that could not be loaded: what they would have been made of, and why."""
    unloaded: list[str] = field(default_factory=list)
    """Versions that a client unloaded."""

    def is_done(self, version: str, mark: object) -> bool:
        """Whether that form of a version was loaded, or tried, already."""
        return mark in (self.marks.get(version, self), self.failed.get(version, (self,))[0])

    def is_unloaded(self) -> bool:
        """Whether a client wanted it gone."""
        return bool(self.unloaded) and not self.marks

    def notes(self, loading: Iterable[str]) -> list[tuple[str, bool, str]]:
        """What the index is to say of versions: whether they are being loaded, and why they do not serve."""
        notes = {version: (version, False, "unloaded") for version in self.unloaded}
        notes |= {version: (version, False, reason) for version, (_, reason) in self.failed.items()}
        notes |= {version: (version, True, "") for version in loading}
        return [*notes.values()]
