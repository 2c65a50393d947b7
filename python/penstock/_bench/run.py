"""Rounds of the load, with the server's statistics before and after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._bench import server_statistics
from penstock._bench.record import Record, round_record, step_record

if TYPE_CHECKING:
    from penstock import _core
    from penstock._bench.inputs import Requests
    from penstock._bench.plan import BenchSettings
    from penstock._bench.sweep import Step
    from penstock.client import Client
    from penstock.client._options import Settings

__all__ = ["Bench", "Moment"]

_TICK = 0.1
"""Seconds between two reports of progress, and between two checks for Ctrl-C."""


@dataclass(frozen=True)
class Moment:
    """Progress of a benchmark."""

    step: Step
    round: int
    place: int
    """Number of the round among all, from 0."""
    rounds: int
    """Number of rounds of all steps."""
    is_warmup: bool
    succeeded: int
    failed: int


class Bench:
    """A benchmark of one model.

    Args:
        client: A client of the server, for its statistics.
        options: Options of the load's connections.
        model: Name and version of the model.
        requests: The requests.
        settings: Steps and limits.
        progress: Called several times a second.
    """

    def __init__(
        self,
        client: Client,
        *,
        options: Settings,
        model: tuple[str, str | None],
        requests: Requests,
        settings: BenchSettings,
        progress: Callable[[Moment], None],
    ) -> None:
        self._client, self._options, self._model, self._requests = client, options, model, requests
        self._settings, self._progress = settings, progress
        self._place = 0
        self.stopped = False
        """True if Ctrl-C ended it."""
        self.has_statistics = server_statistics.snapshot(client, *model) is not None
        """True if the server has statistics of the model."""

    def steps(self) -> Iterator[Record]:
        """Runs the steps. Yields the record of each; after Ctrl-C the last one has what was measured.

        Raises:
            PenstockError: the load cannot be started.
        """
        for step in self._settings.steps:
            rounds: list[Record] = []
            for number in range(self._settings.repeat):
                if (measured := self._round(step, number)) is not None:
                    rounds.append(measured)
                self._place += 1
                if self.stopped:
                    break
            if rounds:
                yield step_record(step, self._settings.is_open, rounds)
            if self.stopped:
                return

    def _round(self, step: Step, number: int) -> Record | None:
        """The record of a round; None if it was stopped before its measurement."""
        from penstock import _core

        plan = self._settings.plan(step, number)
        run = _core.LoadRun(self._client.url, self._options, self._requests.calls, self._requests.bodies, plan)
        try:
            self._wait(run, run.wait_warm, step, number, is_warmup=True)
            before = self._snapshot()
        except KeyboardInterrupt:
            self.stopped = True
            return None
        run.measure()
        try:
            self._wait(run, run.wait, step, number, is_warmup=False)
        except KeyboardInterrupt:
            self.stopped = True
            run.stop()
            # Requests in flight finish; a second Ctrl-C does not wait for them.
            self._wait(run, run.wait, step, number, is_warmup=False)
        measured = run.measured()
        part = server_statistics.difference(before, self._snapshot())
        return round_record(measured, self._settings.percentiles, part)

    def _snapshot(self) -> server_statistics.Snapshot | None:
        return server_statistics.snapshot(self._client, *self._model) if self.has_statistics else None

    def _wait(
        self, run: _core.LoadRun, wait: Callable[[float], bool], step: Step, number: int, *, is_warmup: bool
    ) -> None:
        rounds = len(self._settings.steps) * self._settings.repeat
        while not wait(_TICK):
            succeeded, failed = run.progress()
            self._progress(Moment(step, number, self._place, rounds, is_warmup, succeeded, failed))
