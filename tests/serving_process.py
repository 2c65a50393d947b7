"""A real server: `python -m penstock serve` or `dev` in a separate process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from typing_extensions import Self

from waiting import PATIENCE, until

MODELS = Path(__file__).parent / "models"


class Serving:
    """Runs the command line, after the words of `prefix`; on exit, the process is killed if it still runs.

    With `script`, that Python file is run instead, which calls `penstock.serve`. Imports of large libraries may need
    more `patience`, in seconds. It inherits the `descriptors`.
    """

    def __init__(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        up: bool = True,
        stderr: IO[str] | None = None,
        prefix: Sequence[str] = (),
        command: str = "serve",
        script: str | None = None,
        patience: float = PATIENCE,
        descriptors: Sequence[int] = (),
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *(["-m", "penstock", command] if script is None else [script]), *arguments],
            env={**inherited, "PYTHONUNBUFFERED": "1", **(environment or {})},
            cwd=folder or MODELS,
            stdout=subprocess.PIPE,
            stderr=stderr or subprocess.PIPE,
            text=True,
            pass_fds=descriptors,
        )
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        assert self.process.stdout
        self._readers = [self._read("out", self.process.stdout)]
        if self.process.stderr:
            self._readers.append(self._read("err", self.process.stderr))
        if up:
            # The last lines that a started server prints, and an empty one.
            shown = re.compile(r"\ntry .+\n\n", re.DOTALL)
            ended = lambda: shown.search(self.out) or self.process.poll() is not None  # noqa: E731
            until(ended, "the server to start", patience)
            assert self.process.poll() is None, self.err

    def _read(self, name: str, stream: IO[str]) -> threading.Thread:
        def run() -> None:
            with stream:
                for line in stream:
                    # Line by line, because the test reads while the process runs.
                    self._lines[name].append(line)

        reader = threading.Thread(target=run, daemon=True)
        reader.start()
        return reader

    @property
    def out(self) -> str:
        """Standard output so far."""
        return "".join(self._lines["out"])

    @property
    def err(self) -> str:
        """Standard error so far."""
        return "".join(self._lines["err"])

    @property
    def notices(self) -> list[str]:
        """Lines of standard error so far, without those of the log, which begin with their time."""
        return [line for line in self.err.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT\S+Z ", line)]

    @property
    def http(self) -> str:
        """Its HTTP URL, as printed."""
        return self._printed("http")

    @property
    def grpc(self) -> str:
        """Its gRPC target, as printed."""
        return self._printed("grpc")

    def _printed(self, protocol: str) -> str:
        match = re.search(rf"^{protocol}  (\S+)", self.out, re.MULTILINE)
        assert match, self.out
        return match[1]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def await_stderr(self, text: str) -> bool:
        """Waits until standard error has this text."""
        return until(lambda: text in self.err, f"{text!r} on standard error")

    def exit_status(self) -> int:
        """Waits for the exit. Afterwards the output is complete."""
        status = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.exit_status()
