"""A process that attaches models of `models/attached_models.py` to a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from waiting import PATIENCE

TESTS = Path(__file__).parent


class Attaching:
    """Attaches models, and keeps them until it is told to end; on leaving, it is killed if it is still there."""

    def __init__(self, address: str, *names: str) -> None:
        command = [sys.executable, "-m", "models.attached_models", address, *names]
        self.process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self._out = self.process.stdout
        self.await_said("attached")

    def await_said(self, what: str) -> None:
        """Waits for the next line that it prints, which must begin so."""
        line = self._out.readline()
        assert line.startswith(what), f"it said {line!r} instead of {what!r}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> str:
        """Waits for its end, and gives what it said of it."""
        said = self._out.read()
        assert self.process.wait(PATIENCE) is not None
        return said.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._out.close()
