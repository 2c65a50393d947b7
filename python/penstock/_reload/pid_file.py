"""Pid file of a server. The server holds a lock on it, so a stale file can be recognised."""

from __future__ import annotations

import os
import re
import signal
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock._reload import identity
from penstock._runtime import forks
from penstock.errors import StartupError

__all__ = ["PidFile", "held", "process_of", "request_reload", "send"]

_NUMBER = re.compile(rb"\s*\d*\s*")
_LOCKED_AT = 0x50454E53
"""Offset of the byte that a server locks, far behind the number: other programs lock others."""

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_EXPECTED = "a new path, an empty file, or a pid file that is not in use"


class PidFile:
    """The pid file of this process, which it holds while it serves. Does nothing without a path."""

    def __init__(self, path: str | None) -> None:
        # Handlers may change the working directory.
        self._path = None if path is None else os.path.abspath(path)
        self._file: int | None = None

    def take(self) -> None:
        """Locks the file and writes the number of this process.

        Raises:
            StartupError: the file cannot be written, is not a pid file, or another server holds it.
        """
        if self._path is None or self._file is not None:
            return
        file = _open(self._path)
        try:
            _lock(self._path, file)
            os.ftruncate(file, 0)
            os.pwrite(file, _own_line(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        forks.keep_from_children([file])

    def release(self) -> None:
        """Leaves the file to a server that replaces this one."""
        if self._file is not None:
            forks.let_children_keep(self._file)
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Removes the file, unless it has been replaced or changed, for example by a server that has taken it."""
        if self._path is None:
            return
        held = self._file is not None
        try:
            # Before the lock is released: afterwards the file may be the next server's.
            file = self._file if self._file is not None else os.open(self._path, _FLAGS)
        except OSError:
            return
        _remove(self._path, file, _own_line())
        if held:
            self.release()
        else:
            os.close(file)


@contextmanager
def held(path: str | None, *, take: bool = True) -> Iterator[PidFile]:
    """Holds the file while this process serves; does nothing without a path.

    Args:
        path: The file.
        take: Whether it is taken at once; if not, the block takes it.

    Raises:
        StartupError: the file cannot be written, is not a pid file, or another server holds it.
    """
    file = PidFile(path)
    if take:
        file.take()
    try:
        yield file
    finally:
        file.remove()


def _own_line() -> bytes:
    return f"{os.getpid()}\n".encode()


def _lock(path: str, file: int) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise StartupError(f"pid_file: {path} is held by a running server; each server needs its own") from None
    if not _NUMBER.fullmatch(os.pread(file, 64, 0)):
        raise StartupError(f"pid_file: {path} does not contain a process number, expected {_EXPECTED}")
    # The kernel reports to others which process holds it: `penstock reload` signals no other one.
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_AT)


def _open(path: str) -> int:
    """Opens or creates the file. Other kinds of files are refused unopened: opening a device may act on it."""
    try:
        kind = _kind(os.lstat(path).st_mode) if os.path.lexists(path) else None
        if kind is None:
            return os.open(path, os.O_CREAT | _FLAGS, 0o644)
    except OSError as error:
        raise StartupError(f"pid_file: {path} cannot be written: {error.strerror}") from None
    raise StartupError(f"pid_file: {path} is {kind}, expected {_EXPECTED}")


def _kind(mode: int) -> str | None:
    """The kind of a file; None for a regular file."""
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a directory"))
    return (
        None if stat.S_ISREG(mode) else next((name for is_kind, name in kinds if is_kind(mode)), "a device or socket")
    )


def _remove(path: str, file: int, own: bytes) -> None:
    """Removes the file, unless it has been replaced or changed."""
    try:
        if os.path.samestat(os.lstat(path), os.fstat(file)) and os.pread(file, 64, 0) == own:
            os.unlink(path)
    except OSError:
        # Already removed, or in a read-only folder: without the lock, the file counts as stale.
        pass


def process_of(path: str) -> int:
    """The number of the process that holds the file.

    Raises:
        StartupError: no process holds it.
    """
    import fcntl

    try:
        with open(path, encoding="ascii", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read(32).strip()
            else:
                raise StartupError(f"no server holds {path}: its server was killed")
    except FileNotFoundError:
        raise StartupError(
            f"there is no pid file {path}; is the server running, and was it given this pid_file?"
        ) from None
    except OSError as error:
        raise StartupError(f"the pid file {path} cannot be read: {error.strerror}") from None
    if not text.isdecimal():
        raise StartupError(f"the pid file {path} does not contain a process number")
    return int(text)


def request_reload(number: int, path: str | None = None) -> None:
    """Sends SIGHUP to a server, which reloads its code. Takes the arguments, and raises the errors, of `send`."""
    send(signal.SIGHUP, "reloads", number, path)


def send(sent: signal.Signals, use: str, number: int, path: str | None = None) -> None:
    """Sends a signal to a server.

    Only a process that is known to be a server gets the signal, which ends most others: one that holds the pid file,
    or that `/proc` shows to be a server that reloads.

    Args:
        sent: The signal.
        use: Effect of the signal, for messages about processes that do not handle it.
        number: The process.
        path: The pid file that has the number; None if there is none.

    Raises:
        StartupError: there is no such process, it belongs to another user, or is not known to be a server.
    """
    try:
        with _opened(number) as process:
            holds = path is not None and _holder_of(path) == number
            if not holds and not identity.has_proc():
                raise StartupError(
                    f"process {number} cannot be checked on this system: give --pid-file instead of --pid"
                )
            if not (holds or identity.is_marked(number)) or not _handles(number, sent):
                raise StartupError(f"process {number} is not a running `penstock serve` that {use}; nothing was sent")
            if process is None:
                os.kill(number, sent)
            else:
                # Not another process that has got the number meanwhile.
                signal.pidfd_send_signal(process, sent)
    except (ProcessLookupError, FileNotFoundError):
        raise StartupError(f"there is no process {number}") from None
    except PermissionError:
        raise StartupError(f"process {number} belongs to another user") from None


@contextmanager
def _opened(number: int) -> Iterator[int | None]:
    """A descriptor of a process; None where the system has none."""
    os.kill(number, 0)
    try:
        process = os.pidfd_open(number)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield process
    finally:
        os.close(process)


def _holder_of(path: str) -> int | None:
    """The process that holds the record lock of a pid file, by the kernel; None if there is none."""
    import fcntl

    is_linux = sys.platform.startswith("linux")
    # Type and origin, start, length and process of the lock, in the order of `struct flock`.
    form = "hhqqi" if is_linux else "qqihh"
    sought = (fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_AT, 1, 0) if is_linux else (_LOCKED_AT, 1, 0, fcntl.F_WRLCK, 0)
    try:
        with open(path, "rb") as file:
            found = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(form, *sought)))
    except OSError:
        return None
    kind, number = (found[0], found[4]) if is_linux else (found[3], found[2])
    return None if kind == fcntl.F_UNLCK else int(number)


def _handles(number: int, sent: signal.Signals) -> bool:
    """Returns True if the process handles a signal, or if that cannot be determined."""
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace").splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, ValueError):
        return True
    return bool(caught >> (sent - 1) & 1)
