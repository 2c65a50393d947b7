"""How far a build is: one line that changes on a terminal, and all that the builder says elsewhere."""

from __future__ import annotations

import re
import shutil
import time
from typing import TextIO

__all__ = ["Progress", "step_of"]

_STEP = re.compile(r"^(?:#\d+ \[(?:[\w.-]+ )?\s*|STEP |Step )(\d+)/(\d+)\]?\s*:?\s*(.*)$")
_WIDTH = 24


def step_of(line: str) -> tuple[int, int, str] | None:
    """The step that a builder's line begins: its number, how many there are, and what it does."""
    found = _STEP.match(line)
    return (int(found[1]), int(found[2]), found[3].strip()) if found else None


class Progress:
    """Shows a build.

    Args:
        stream: Where.
        all_lines: Whether to show all that the builder says, even on a terminal.
    """

    def __init__(self, stream: TextIO, *, all_lines: bool = False) -> None:
        self._stream = stream
        self.shows_lines = all_lines or not stream.isatty()
        self._began = time.monotonic()
        self._at = (0, 1, "")

    def line(self, text: str) -> None:
        """Takes a line of the builder's."""
        if self.shows_lines:
            print(text, file=self._stream, flush=True)
            return
        # Builders of several stages at once name steps out of order; a bar does not go back.
        if (step := step_of(text)) and step[0] / step[1] >= self._at[0] / self._at[1]:
            self._at = step
        self._show()

    def end(self) -> None:
        """Leaves the line as it is, and goes to the next."""
        if not self.shows_lines:
            self._stream.write("\n")
            self._stream.flush()

    def _show(self) -> None:
        number, of, what = self._at
        filled = _WIDTH * number // of
        seconds = time.monotonic() - self._began
        text = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {number}/{of} {seconds:4.0f} s  {what}"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()
