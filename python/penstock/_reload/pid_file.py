"""A file that says which process serves. The server holds a lock on it, so one that was left over is known as such."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock._runtime import forks
from penstock.errors import StartupError

__all__ = ["ask_process", "held", "process_of"]

_NUMBER = re.compile(rb"\s*\d*\s*")
_EXPECTED = "a path where nothing is, an empty file, or one that a server has left"


@contextmanager
def held(path: str | None) -> Iterator[None]:
    """Keeps the file while this process serves; without a path, does nothing.

    Raises:
        StartupError: it cannot be written, is no pid file, or a server that runs holds it.
    """
    if path is None:
        yield
        return
    import fcntl

    # Handlers may change the working directory.
    path = os.path.abspath(path)
    file = _open(path)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartupError(f"pid_file: {path} belongs to a server that runs; give each its own") from None
        if not _NUMBER.fullmatch(os.pread(file, 64, 0)):
            raise StartupError(f"pid_file: {path} holds something else than a process number, expected {_EXPECTED}")
        own = f"{os.getpid()}\n".encode()
        os.ftruncate(file, 0)
        os.pwrite(file, own, 0)
        forks.keep_from_children([file])
        try:
            yield
        finally:
            # Before the lock is gone, so that it is not the next server's.
            _remove(path, file, own)
            forks.let_children_keep(file)
    finally:
        os.close(file)


def _open(path: str) -> int:
    """The file, made if there is none. What is no plain file is refused unopened: to open a device may act on it."""
    try:
        kind = _kind(os.lstat(path).st_mode) if os.path.lexists(path) else None
        if kind is None:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise StartupError(f"pid_file: {path} cannot be written: {error.strerror}") from None
    raise StartupError(f"pid_file: {path} is {kind}, expected {_EXPECTED}")


def _kind(mode: int) -> str | None:
    """The kind of a file that is no plain one."""
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a directory"))
    return None if stat.S_ISREG(mode) else next((name for is_one, name in kinds if is_one(mode)), "a device or socket")


def _remove(path: str, file: int, own: bytes) -> None:
    """Removes the file, unless somebody has put another one in its place or written to it."""
    try:
        found, held_one = os.lstat(path), os.fstat(file)
        if os.path.samestat(found, held_one) and os.pread(file, 64, 0) == own:
            os.unlink(path)
    except OSError:
        # It is gone already, or its folder takes no change: the lock tells that nobody holds it.
        pass


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
