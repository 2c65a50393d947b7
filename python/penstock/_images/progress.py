"""Progress of a build: a progress bar on a terminal, else all output of the builder."""

from __future__ import annotations

import re
import time
from typing import TextIO

from penstock._runtime.status_line import StatusLine, bar

__all__ = ["Progress", "step_of"]

_STEP = re.compile(r"^(?:#\d+ \[(?:[\w.-]+ )?\s*|STEP |Step )(\d+)/(\d+)\]?\s*:?\s*(.*)$")


def step_of(line: str) -> tuple[int, int, str] | None:
    """The step that a line of output begins: its number, the number of steps, and its description."""
    match = _STEP.match(line)
    return (int(match[1]), int(match[2]), match[3].strip()) if match else None


class Progress:
    """Display of a build.

    Args:
        stream: The output.
        all_lines: Whether to print all output of the builder, even on a terminal.
    """

    def __init__(self, stream: TextIO, *, all_lines: bool = False) -> None:
        self._stream = stream
        self._bar = StatusLine(stream)
        self.shows_lines = all_lines or not self._bar.is_shown
        self._began = time.monotonic()
        self._at = (0, 1, "")

    def line(self, text: str) -> None:
        """Processes a line of the builder's output."""
        if self.shows_lines:
            print(text, file=self._stream, flush=True)
            return
        # Parallel stages report steps out of order; the bar does not go back.
        if (step := step_of(text)) and step[0] / step[1] >= self._at[0] / self._at[1]:
            self._at = step
        self._show()

    def end(self) -> None:
        """Ends the line of the progress bar."""
        if not self.shows_lines:
            self._bar.end()

    def _show(self) -> None:
        number, total, description = self._at
        seconds = time.monotonic() - self._began
        self._bar.show(f"{number}/{total} {seconds:4.0f} s  {description}", bar(number, total))
