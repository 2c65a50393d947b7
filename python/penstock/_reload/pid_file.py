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

__all__ = ["held", "process_of", "request_reload"]

_NUMBER = re.compile(rb"\s*\d*\s*")
_LOCKED_AT = 0x50454E53
"""Offset of the byte that a server locks, far behind the number: other programs lock others."""

_EXPECTED = "a new path, an empty file, or a pid file that is not in use"


@contextmanager
def held(path: str | None) -> Iterator[None]:
    """Holds the file while this process serves; does nothing without a path.

    Raises:
        StartupError: the file cannot be written, is not a pid file, or another server holds it.
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
            raise StartupError(f"pid_file: {path} is held by a running server; each server needs its own") from None
        if not _NUMBER.fullmatch(os.pread(file, 64, 0)):
            raise StartupError(f"pid_file: {path} does not contain a process number, expected {_EXPECTED}")
        # The kernel tells others which process holds it: `penstock reload` signals no other one.
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_AT)
        own = f"{os.getpid()}\n".encode()
        os.ftruncate(file, 0)
        os.pwrite(file, own, 0)
        forks.keep_from_children([file])
        try:
            yield
        finally:
            # Before the lock is released: afterwards the file may be the next server's.
            _remove(path, file, own)
            forks.let_children_keep(file)
    finally:
        os.close(file)


def _open(path: str) -> int:
    """Opens or creates the file. Other kinds of files are refused unopened: opening a device may act on it."""
    try:
        kind = _kind(os.lstat(path).st_mode) if os.path.lexists(path) else None
        if kind is None:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
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
    """Sends SIGHUP to a server, which reloads its code.

    Only a process that is known to be a server gets the signal, which ends most others: one that holds the pid file,
    or that `/proc` shows to be a server that reloads.

    Args:
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
            if not (holds or identity.is_marked(number)) or not _handles_sighup(number):
                raise StartupError(f"process {number} is not a running `penstock serve` that reloads; nothing was sent")
            if process is None:
                os.kill(number, signal.SIGHUP)
            else:
                # Not another process that has got the number meanwhile.
                signal.pidfd_send_signal(process, signal.SIGHUP)
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


def _handles_sighup(number: int) -> bool:
    """Returns True if the process handles SIGHUP, or if that cannot be determined."""
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace").splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, ValueError):
        return True
    return bool(caught >> (signal.SIGHUP - 1) & 1)
