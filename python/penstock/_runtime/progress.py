"""Progress of a load: a line on standard error every two seconds, with what is still loading."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._runtime.console import echo

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["Progress", "several", "shown", "tracked"]

_INTERVAL = 2.0
"""Seconds between two lines."""

_MOST_NAMES = 3
"""Most names in a line."""

_shown: list[Progress] = []
"""The progress that is shown, the latest last. Empty unless a command loads models."""


class Progress:
    """Seconds of a load, and the models that it still builds.

    Args:
        what: The load, as the lines name it while no model is built.
    """

    def __init__(self, what: str) -> None:
        self._what, self._began = what, time.monotonic()
        self._names: dict[str, int] = {}
        """Models that are being built, with the instances that are not ready."""
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self._began

    def expect(self, name: str, instances: int) -> None:
        """Adds a model."""
        with self._lock:
            self._names[name] = self._names.get(name, 0) + instances

    def built(self, name: str) -> None:
        """Counts one instance of a model as built."""
        with self._lock:
            self._names[name] -= 1
            if self._names[name] <= 0:
                del self._names[name]

    def line(self) -> str:
        """The present line."""
        with self._lock:
            names = [*self._names]
        return f"penstock: loading {several(names) or self._what} ... {self.seconds:.0f} s"


def several(names: Sequence[str]) -> str:
    """The first names, and the number of the others; empty for none."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


@contextmanager
def shown(what: str) -> Iterator[Progress]:
    """Prints a line every two seconds until the block ends; none if it takes less."""
    progress, ended = Progress(what), threading.Event()

    def report() -> None:
        while not ended.wait(_INTERVAL):
            echo(progress.line())

    reporter = threading.Thread(target=report, name="penstock-progress", daemon=True)
    _shown.append(progress)
    reporter.start()
    try:
        yield progress
    finally:
        _shown.remove(progress)
        ended.set()


def tracked(definitions: Iterable[Definition]) -> list[Definition]:
    """Definitions whose instances report to the shown progress when they are built; unchanged if none is shown."""
    if not _shown:
        return [*definitions]
    progress = _shown[-1]
    return [_tracked(definition, progress) for definition in definitions]


def _tracked(definition: Definition, progress: Progress) -> Definition:
    if definition.name.startswith(":"):
        # It serves routes of other models, and is not listed.
        return definition
    progress.expect(definition.name, definition.instances)
    if definition.processes is not None:
        # Its process does not report; the name is shown until all models are ready.
        return definition
    build = definition.factory

    def factory() -> Any:
        try:
            return build()
        finally:
            progress.built(definition.name)

    return replace(definition, factory=factory)
