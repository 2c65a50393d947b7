"""`StatusLine`: one line of a terminal that is rewritten while something takes long."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from typing import TextIO

__all__ = ["StatusLine", "bar", "erase_shown", "is_terminal"]

_BAR_WIDTH = 24
"""Characters of a bar, without its brackets."""

_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"
_BEGIN_AND_ERASE = "\r\x1b[K"


class StatusLine:
    """A line at the bottom of a terminal. It writes nothing where the stream is not a terminal.

    Args:
        stream: The output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_shown = is_terminal(stream)
        """True if the stream is a terminal, so that `show` has an effect."""
        self._colours = self.is_shown and not os.environ.get("NO_COLOR")

    def show(self, text: str, filled: str = "") -> None:
        """Replaces the line.

        Args:
            text: The text, which is cut at the width of the terminal.
            filled: A bar of `bar`, which is shown in front of it.
        """
        with _lock:
            if not self.is_shown or (self in _active and _active[-1] is not self):
                # A line that began later is shown, until it ends.
                return
            if self not in _active:
                _active.append(self)
        width = shutil.get_terminal_size().columns - 1
        shown = f"{filled} {text}"[:width] if filled else text[:width]
        if self._colours and filled:
            shown = f"{_GREEN}{shown[: len(filled)]}{_PLAIN}{shown[len(filled) :]}"
        with _lock:
            if _active[-1:] == [self]:
                # What others print overwrites the line: the cursor waits at its begin.
                self._write(f"{_BEGIN_AND_ERASE}{shown}\r")

    def clear(self) -> None:
        """Erases the text until the next `show`."""
        with _lock:
            if _active[-1:] == [self]:
                self._write(_BEGIN_AND_ERASE)

    def erase(self) -> None:
        """Ends the line and erases it; what is printed next begins where it was."""
        self._finish(_BEGIN_AND_ERASE)

    def end(self) -> None:
        """Ends the line and leaves its text; what is printed next begins below it."""
        self._finish("\n")

    def _finish(self, last: str) -> None:
        with _lock:
            if self in _active:
                if _active[-1] is self:
                    self._write(last)
                _active.remove(self)

    def _write(self, text: str) -> None:
        # A full disk or a closed terminal must not end a load.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


_lock = threading.RLock()
"""Held while a line is written. A signal's handler, which prints too, may run on the thread that holds it."""
_active: list[StatusLine] = []
"""Lines that have begun and not ended; the last one is on the terminal."""


def erase_shown() -> None:
    """Erases the line that is on the terminal, in front of other output. Its next change shows it again."""
    with _lock:
        for line in _active[-1:]:
            line.clear()


def is_terminal(stream: TextIO) -> bool:
    """True if a stream is a terminal on which a line can be rewritten."""
    with suppress(AttributeError, ValueError):
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    return False


def bar(done: int, total: int) -> str:
    """A bar of which the part `done` of `total` is filled."""
    filled = _BAR_WIDTH * min(done, total) // max(1, total)
    return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"
