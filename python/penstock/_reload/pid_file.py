"""A file that says which process serves. The server holds a lock on it, so one that was left over is known as such."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StartupError

__all__ = ["ask_process", "held", "process_of"]


@contextmanager
def held(path: str | None) -> Iterator[None]:
    """Keeps the file while this process serves; without a path, does nothing.

    Raises:
        StartupError: it cannot be written, or a server that runs holds it.
    """
    if path is None:
        yield
        return
    import fcntl

    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StartupError(f"pid_file: {path} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartupError(f"pid_file: {path} belongs to a server that runs; give each its own") from None
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            # Before the lock is gone, so that it is not the next server's.
            Path(path).unlink(missing_ok=True)
    finally:
        os.close(file)


def process_of(path: str) -> int:
    """The process that holds the file.

    Raises:
        StartupError: there is none.
    """
    import fcntl

    try:
        with open(path, encoding="ascii", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read(32).strip()
            else:
                raise StartupError(f"no server holds {path}: it was left over by one that was killed")
    except FileNotFoundError:
        raise StartupError(
            f"there is no pid file {path}; is the server running, and was it given this pid_file?"
        ) from None
    except OSError as error:
        raise StartupError(f"the pid file {path} cannot be read: {error.strerror}") from None
    if not text.isdecimal():
        raise StartupError(f"the pid file {path} holds no process number")
    return int(text)


def ask_process(number: int) -> None:
    """Asks a server to load its code anew.

    Raises:
        StartupError: there is no such process, it is another user's, or it is none that would understand.
    """
    try:
        os.kill(number, 0)
        if not _listens(number):
            # The signal would end it.
            raise StartupError(f"process {number} is no `penstock serve`: it does not catch SIGHUP")
        os.kill(number, signal.SIGHUP)
    except ProcessLookupError:
        raise StartupError(f"there is no process {number}") from None
    except PermissionError:
        raise StartupError(f"process {number} belongs to another user") from None


def _listens(number: int) -> bool:
    """Whether the process catches SIGHUP; where that cannot be seen, it is believed to."""
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace").splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, ValueError):
        return True
    return bool(caught >> (signal.SIGHUP - 1) & 1)
