"""Progress of downloads on a terminal: their bytes, and a bar where the size is known. Nothing elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock._runtime.status_line import StatusLine, bar

__all__ = ["expect", "is_shown", "received", "shown"]

_INTERVAL = 0.25
"""Seconds between two changes of the line, and until it is shown first."""

_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000

_shown: list[_Download] = []
"""Downloads whose progress is shown, the latest last."""


class _Download:
    """Bytes of a download.

    Args:
        what: The source, without secrets.
        folder: The folder that it fills, whose files count where the bytes are not reported.
    """

    def __init__(self, what: str, folder: Path) -> None:
        self._what, self._folder, self._began = what, folder, time.monotonic()
        self._expected = self._received = 0
        self._lock = threading.Lock()

    def expect(self, size: int) -> None:
        with self._lock:
            self._expected += size

    def add(self, size: int) -> None:
        with self._lock:
            self._received += size

    def status(self) -> tuple[str, str]:
        """The text of the line, and the bar in front of it; empty where the size is not known."""
        with self._lock:
            expected, size = self._expected, self._received
        size = size or _size_of(self._folder)
        whole = f" of {_text(expected)}" if expected else ""
        rate = size / max(time.monotonic() - self._began, _INTERVAL)
        # The source last: the line is cut at the width of the terminal.
        text = f"penstock: downloaded {_text(size)}{whole}, {_text(rate)}/s: {self._what}"
        return text, bar(size, expected) if expected else ""


@contextmanager
def shown(what: str, folder: Path) -> Iterator[None]:
    """Shows the progress of a download on standard error until the block ends, if that is a terminal.

    Args:
        what: The source, without secrets.
        folder: The folder that it fills.
    """
    line = StatusLine(sys.stderr)
    if not line.is_shown:
        yield
        return
    download, ended = _Download(what, folder), threading.Event()

    def report() -> None:
        while not ended.wait(_INTERVAL):
            line.show(*download.status())
        line.erase()

    reporter = threading.Thread(target=report, name="penstock-progress", daemon=True)
    _shown.append(download)
    reporter.start()
    try:
        yield
    finally:
        _shown.remove(download)
        ended.set()
        reporter.join()


def is_shown() -> bool:
    """True if the progress of a download is shown, so that a library need not show it too."""
    return bool(_shown)


def expect(size: int | None) -> None:
    """Adds bytes to the known size of the download that is shown; None leaves it unknown."""
    for download in _shown[-1:]:
        download.expect(size or 0)


def received(size: int) -> None:
    """Counts bytes of the download that is shown."""
    for download in _shown[-1:]:
        download.add(size)


def _size_of(folder: Path) -> int:
    """Bytes of the files below a folder, which may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _text(size: float) -> str:
    """A number of bytes with its unit."""
    unit = 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size:.0f} B"
