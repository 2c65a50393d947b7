"""`ScriptThread`: a command that runs beside a test, with its output."""

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
    """A thread that runs a command until it ends, and keeps and logs each line that it writes.

    Args:
        cmd: The command and its arguments.
        workdir: The folder that it runs in; this process's by default.
        group, target, name, args, kwargs: As `threading.Thread` has them. The name is the logger's too.

    It is a context manager: the command has been started at its begin, and has ended at its end.

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
        """What the command has written so far, to both of its streams."""
        return "\n".join(self._lines)

    @property
    def process(self) -> subprocess.Popen[str] | None:
        """The command's process while it runs."""
        return self._process

    def start(self, flag: threading.Event | None = None) -> None:
        """Starts the command; `flag` is set once it runs, or cannot."""
        self._spawned = flag or self._spawned
        self._logger.info('Starting %s script with "%s" cmd', self.name, " ".join(self.cmd))
        super().start()

    def stop(self) -> None:
        """Notes that nobody waits for more; the command itself is left to end."""
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
