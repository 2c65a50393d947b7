"""Progress bar on a terminal."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from penstock._bench.plan import BenchSettings
from penstock._bench.run import Moment

__all__ = ["ProgressBar"]

_WIDTH = 20


class ProgressBar:
    """One line that is written again with each moment; nothing unless the stream is a terminal."""

    def __init__(self, stream: TextIO, settings: BenchSettings) -> None:
        self._stream, self._settings = stream, settings
        self._is_terminal = stream.isatty()
        self._phase: tuple[int, bool] | None = None
        self._began = 0.0
        self._shown = False

    def show(self, moment: Moment) -> None:
        """Writes the line."""
        if not self._is_terminal:
            return
        if (phase := (moment.place, moment.is_warmup)) != self._phase:
            self._phase, self._began = phase, time.monotonic()
        columns = max(shutil.get_terminal_size().columns - 1, 20)
        self._stream.write(f"\r\x1b[K{self.line(moment, time.monotonic() - self._began)[:columns]}")
        self._stream.flush()
        self._shown = True

    def line(self, moment: Moment, elapsed: float) -> str:
        """The line of a moment, that many seconds after its phase began."""
        share = (moment.place + self._share(moment, elapsed)) / moment.rounds
        filled = round(share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        name = f"rate {moment.step:.15g}" if self._settings.is_open else f"concurrency {moment.step}"
        if self._settings.repeat > 1:
            name += f" round {moment.round + 1}/{self._settings.repeat}"
        phase = "warm-up" if moment.is_warmup else f"{moment.succeeded:,} requests, {moment.failed:,} errors"
        return f"{bar} {share:4.0%}  {name}  {phase}"

    def clear(self) -> None:
        """Removes the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _share(self, moment: Moment, elapsed: float) -> float:
        """Done part of a round, from 0 to 1."""
        settings = self._settings
        if moment.is_warmup:
            return 0.0
        shares = []
        if settings.seconds:
            shares.append(elapsed / settings.seconds)
        if settings.requests:
            shares.append((moment.succeeded + moment.failed) / settings.requests)
        return min(max(shares, default=0.0), 1.0)
