"""`ScriptThread`: a command that runs during a test, with its output."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ScriptThread"]


class ScriptThread(threading.Thread):
    """A thread that runs a command until it ends, and stores and logs each line of its output.

    Args:
        cmd: Command and arguments.
        workdir: Working directory, by default the one of this process.
        group, target, name, args, kwargs: As for `threading.Thread`. The name is also the logger's name.

    It is a context manager, which starts the command on entry and waits for its end on exit.

    Example:
        >>> with ScriptThread([sys.executable, "server.py"], name="server") as server:
        ...     use_it()
        ...     server.process.send_signal(signal.SIGINT)
        >>> server.returncode, server.output
    """

    def __init__(  # noqa: PLR0917
        self,
        cmd: Sequence[str],
        workdir: str | os.PathLike[str] | None = None,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(group, target, name, args, kwargs, daemon=True)
        self.cmd = cmd
        self.workdir = workdir
        self.active = False
        self.returncode: int | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._spawned = threading.Event()
        self._logger = logging.getLogger(self.name)

    @property
    def output(self) -> str:
        """Output of the command so far, from both streams."""
        return "\n".join(self._lines)

    @property
    def process(self) -> subprocess.Popen[str] | None:
        """Process of the command while it runs, else None."""
        return self._process

    def start(self, flag: threading.Event | None = None) -> None:
        """Starts the command. `flag` is set when it runs or its start has failed."""
        self._spawned = flag or self._spawned
        self._logger.info('Starting %s script with "%s" cmd', self.name, " ".join(self.cmd))
        super().start()

    def stop(self) -> None:
        """Marks the thread as inactive. The command itself keeps running."""
        self._logger.info("Stopping %s script", self.name)
        self.active = False

    def run(self) -> None:
        """Runs the command."""
        environment = {"PYTHONUNBUFFERED": "1", **os.environ}
        try:
            process = subprocess.Popen(  # noqa: S603
                self.cmd,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=self.workdir,
                env=environment,
            )
        except OSError as error:
            self._logger.error("%s cannot be started: %s", self.name, error)
            return
        finally:
            self._spawned.set()
        self.active = True
        self._process = process
        readers = [threading.Thread(target=self._read, args=(stream,)) for stream in (process.stdout, process.stderr)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.returncode = process.wait()
        self._logger.info("%s process finished with %d", self.name, self.returncode)
        self.active = False
        self._process = None

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip())
                self._logger.info(line.rstrip())

    def __enter__(self) -> Self:
        self.start()
        self._spawned.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()
