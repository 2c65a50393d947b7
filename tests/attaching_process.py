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
    """A process that attaches models until it is stopped; on exit, it is killed if it still runs."""

    def __init__(self, address: str, *names: str) -> None:
        command = [sys.executable, "-m", "models.attached_models", address, *names]
        self.process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self._out = self.process.stdout
        self.await_line("attached")

    def await_line(self, prefix: str) -> None:
        """Waits for the next line of output, which must start with a prefix."""
        line = self._out.readline()
        assert line.startswith(prefix), f"got line {line!r}, expected {prefix!r}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def read_until_exit(self) -> str:
        """Waits for its end, and returns the rest of its output."""
        output = self._out.read()
        assert self.process.wait(PATIENCE) is not None
        return output.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._out.close()
