"""What a function prints and the images it logs, for the request log."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TextIO

__all__ = ["Captured", "capturing", "current"]


@dataclass
class Captured:
    """What came of one call beside its result."""

    text: io.StringIO = field(default_factory=io.StringIO)
    images: list[str] = field(default_factory=list)


_CURRENT: ContextVar[Captured | None] = ContextVar("penstock_modelbit_captured", default=None)


def current() -> Captured | None:
    """What is captured for the call that runs; None if nobody wants it."""
    return _CURRENT.get()


@contextlib.contextmanager
def capturing(wanted: bool = True) -> Iterator[Captured]:
    """Captures what is printed meanwhile, by this task alone."""
    captured = Captured()
    if wanted:
        _install()
    token = _CURRENT.set(captured if wanted else None)
    try:
        yield captured
    finally:
        _CURRENT.reset(token)


def _install() -> None:
    """Has standard output tell what is captured, and go where it went."""
    if not isinstance(sys.stdout, _Told):
        sys.stdout = _Told(sys.stdout)


class _Told(io.TextIOBase):
    """Standard output that is also captured."""

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
