"""Capture of a function's standard output and logged images, for the request log."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TextIO

__all__ = ["Capture", "capturing", "current"]


@dataclass
class Capture:
    """Output of one call apart from its result."""

    text: io.StringIO = field(default_factory=io.StringIO)
    images: list[str] = field(default_factory=list)


_CURRENT: ContextVar[Capture | None] = ContextVar("penstock_modelbit_capture", default=None)


def current() -> Capture | None:
    """Returns the capture of the running call; None if the call is not captured."""
    return _CURRENT.get()


@contextlib.contextmanager
def capturing(enabled: bool = True) -> Iterator[Capture]:
    """Captures the standard output of the current task or thread."""
    captured = Capture()
    if enabled:
        _install()
    token = _CURRENT.set(captured if enabled else None)
    try:
        yield captured
    finally:
        _CURRENT.reset(token)


def _install() -> None:
    """Replaces `sys.stdout`, once per process, by a stream that also writes to the current capture."""
    if not isinstance(sys.stdout, _TeeStream):
        sys.stdout = _TeeStream(sys.stdout)


class _TeeStream(io.TextIOBase):
    """Standard output that is also written to the current capture."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        if (captured := _CURRENT.get()) is not None:
            captured.text.write(text)
        return self._real.write(text)

    def flush(self) -> None:
        self._real.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
