"""Where a server and those that attach models to it meet: a socket that only one user can reach.

`auto` is a place that both sides find by the server's port: `attach-PORT.sock` in a folder of the user's own.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.errors import BindError, ConfigError, Unavailable

if TYPE_CHECKING:
    from penstock._core import Line

__all__ = ["candidates", "check_partner", "made"]

_CREDENTIALS = struct.Struct("iII")
"""The kernel's `struct ucred`: process, user, group."""


def made(port: int) -> str:
    """Where the server of that port listens, in a folder that is made if need be.

    Raises:
        BindError: the folder is not this user's alone.
    """
    folder = _folders()[0]
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise BindError(f"attach: the folder {folder} cannot be made: {error.strerror}") from None
    if (problem := _problem(folder)) is not None:
        raise BindError(f"attach: {problem}")
    return _socket(folder, port)


def candidates(address: str) -> list[str]:
    """Where the server may listen that an address names: `unix:/path`, or what HTTP or gRPC clients are given.

    Raises:
        ConfigError: it is no address, or one of another machine.
        Unavailable: the folder where it would be is not this user's alone.
    """
    if address.startswith("unix:"):
        if not (path := address.removeprefix("unix:")):
            raise ConfigError(f"attach: {address!r} has no path")
        return [path]
    host, port = _host_and_port(address)
    if not _is_here(host):
        raise ConfigError(f"attach: {address!r} is not on this machine; models are attached by its own processes")
    problems = {folder: _problem(folder) for folder in _folders() if os.path.lexists(folder)}
    # Somebody else's server is not to be talked to, and somebody else's folder not to be in the way.
    found = [_socket(folder, port) for folder, problem in problems.items() if problem is None]
    if not found and problems:
        raise Unavailable(f"attach: {next(filter(None, problems.values()))}")
    return found


def check_partner(line: Line) -> bool:
    """Whether the other end is of this user too, as the kernel knows it. Its end is watched from now on."""
    with socket.socket(fileno=os.dup(line.fileno())) as end:
        said = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(said)
    if user != os.geteuid():
        return False
    line.watch(process)
    return True


def _folders() -> list[str]:
    """Folders where it may be, the best one first."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    # Whoever has no such variable still finds what lies in the second one.
    ours = [os.path.join(own, "penstock")] if os.path.isabs(own) and os.path.isdir(own) else []
    return [*ours, f"/tmp/penstock-{os.geteuid()}"]  # noqa: S108 - looked at by `_problem`


def _problem(folder: str) -> str | None:
    """Why a folder is not this user's alone; None if it is."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.geteuid():
        return f"the folder {folder} belongs to another user"
    if found.st_mode & 0o077:
        return f"the folder {folder} is open to other users; its mode must be 0700"
    return None


def _socket(folder: str, port: int) -> str:
    return os.path.join(folder, f"attach-{port}.sock")


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("", "http", "grpc"):
        raise ConfigError(f"attach: {address!r} is no address: expected http://HOST:PORT, HOST:PORT or unix:/path")
    return host, port or (8001 if parts.scheme == "grpc" else 8000)


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine's: only these can be listened on."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, where in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(where)
                return True
        except OSError:
            continue
    return False
