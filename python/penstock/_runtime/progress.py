"""Progress of a load: a line that is rewritten on a terminal, else a line every two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._runtime.console import echo
from penstock._runtime.status_line import StatusLine, bar

if TYPE_CHECKING:
    from penstock._spec.definition import Definition, WarmupSource

__all__ = ["Progress", "several", "shown", "tracked"]

_INTERVAL = 2.0
"""Seconds between two lines where the output is not a terminal."""

_TERMINAL_INTERVAL = 0.25
"""Seconds between two changes of the line of a terminal, and until it is shown first."""

_MOST_NAMES = 3
"""Most names in a line."""

_shown: list[Progress] = []
"""The progress that is shown, the latest last. Empty unless a command loads models."""


class Progress:
    """Seconds of a load, and the models that it still builds.

    Args:
        what: The load, as the lines name it while no model is built.
        line: The line of the terminal.
    """

    def __init__(self, what: str, line: StatusLine) -> None:
        self._what, self._line, self._began = what, line, time.monotonic()
        self._names: dict[str, int] = {}
        """Models that are being built, with the instances that are not ready."""
        self._samples: dict[str, int] = {}
        """Models that are warmed up, with the number of the sample that each computes."""
        self._built = self._expected = 0
        """Instances that are built, and all."""
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self._began

    def expect(self, name: str, instances: int, *, reports: bool) -> None:
        """Adds a model.

        Args:
            name: The model.
            instances: Its number of instances.
            reports: Whether `built` is called for each of them.
        """
        with self._lock:
            self._names[name] = self._names.get(name, 0) + instances
            self._expected += instances if reports else 0

    def built(self, name: str) -> None:
        """Counts one instance of a model as built."""
        with self._lock:
            self._built += 1
            self._names[name] -= 1
            if self._names[name] <= 0:
                del self._names[name]
        self._clear_when_ready()

    def warms_up(self, name: str, sample: int | None) -> None:
        """Sets the number of the sample that a model computes; None at the end of its warm-up."""
        with self._lock:
            if sample is None:
                self._samples.pop(name, None)
            else:
                self._samples[name] = sample
        self._clear_when_ready()

    def status(self) -> tuple[str, str]:
        """The present line of a terminal, and the bar in front of it, of instances that are built."""
        with self._lock:
            names, samples = [*self._names], dict(self._samples)
            filled = bar(self._built, self._expected) if self._expected > 1 else ""
        warming = [f"{name}, sample {sample}" for name, sample in samples.items()]
        what = f"warming up {several(warming)}" if warming else f"loading {several(names) or self._what}"
        return f"penstock: {what} ... {self.seconds:.0f} s", filled

    def line(self) -> str:
        """The present line where the output is not a terminal."""
        with self._lock:
            names = [*self._names]
        return f"penstock: loading {several(names) or self._what} ... {self.seconds:.0f} s"

    def _clear_when_ready(self) -> None:
        """Clears the line in front of the server's log, which is not written here."""
        with self._lock:
            is_ready = not self._names and not self._samples
        if is_ready:
            self._line.clear()


def several(names: Sequence[str]) -> str:
    """The first names, and the number of the others; empty for none."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


@contextmanager
def shown(what: str) -> Iterator[Progress]:
    """Prints the progress on standard error until the block ends; nothing if it takes less than an interval."""
    line = StatusLine(sys.stderr)
    progress, ended = Progress(what, line), threading.Event()

    def report() -> None:
        while not ended.wait(_TERMINAL_INTERVAL if line.is_shown else _INTERVAL):
            if line.is_shown:
                line.show(*progress.status())
            else:
                echo(progress.line())
        line.erase()

    reporter = threading.Thread(target=report, name="penstock-progress", daemon=True)
    _shown.append(progress)
    reporter.start()
    try:
        yield progress
    finally:
        _shown.remove(progress)
        ended.set()
        if line.is_shown:
            # What is printed next begins where the line was.
            reporter.join()


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
    if definition.warmup is not None:
        definition = replace(definition, warmup=_CountedSamples(definition.warmup, progress))
    progress.expect(definition.name, definition.instances, reports=definition.processes is None)
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


class _CountedSamples:
    """A source of warm-up requests that reports which one is computed. The next one is made when it has ended."""

    def __init__(self, source: WarmupSource, progress: Progress) -> None:
        self._source, self._progress = source, progress

    def requests(self, definition: Definition) -> Iterator[tuple[str, bytes, int]]:
        """The requests of the source."""
        try:
            for number, request in enumerate(self._source.requests(definition), 1):
                self._progress.warms_up(definition.name, number)
                yield request
        finally:
            self._progress.warms_up(definition.name, None)
