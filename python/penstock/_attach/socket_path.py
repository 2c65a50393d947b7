"""Path of the socket between a server and attaching processes, in a folder that only one user can open.

With `auto`, both sides derive the path from the server's port: `attach-PORT.sock` in a private folder of the user.
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
    from penstock._core import ControlChannel

__all__ = ["candidates", "check_peer", "create"]

_CREDENTIALS = struct.Struct("iII")
"""The kernel's `struct ucred`: process, user, group."""


def create(port: int) -> str:
    """The socket path of a server on `port`. Creates its folder if it does not exist.

    Raises:
        BindError: the folder cannot be created, or other users have access to it.
    """
    folder = _folders()[0]
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise BindError(f"attach: the folder {folder} cannot be created: {error.strerror}") from None
    if (problem := _problem(folder)) is not None:
        raise BindError(f"attach: {problem}")
    return _socket(folder, port)


def candidates(address: str) -> list[str]:
    """Socket paths that an address may stand for: `unix:/path`, or the HTTP or gRPC address of the server.

    Raises:
        ConfigError: not an address, or an address of another machine.
        Unavailable: other users have access to every folder that may hold the socket.
    """
    if address.startswith("unix:"):
        if not (path := address.removeprefix("unix:")):
            raise ConfigError(f"attach: {address!r} has no path")
        return [path]
    host, port = _host_and_port(address)
    if not _is_here(host):
        raise ConfigError(f"attach: {address!r} is not on this machine; models are attached by its own processes")
    problems = {folder: _problem(folder) for folder in _folders() if os.path.lexists(folder)}
    # A folder of another user is skipped: it must neither be trusted nor block the private one.
    paths = [_socket(folder, port) for folder, problem in problems.items() if problem is None]
    if not paths and problems:
        raise Unavailable(f"attach: {next(filter(None, problems.values()))}")
    return paths


def check_peer(connection: ControlChannel) -> bool:
    """True if the process at the other end belongs to this user, by the kernel's credentials.

    If it does, the connection ends when that process ends.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    if user != os.geteuid():
        return False
    connection.watch_process(process)
    return True


def _folders() -> list[str]:
    """Folders that may hold the socket, in order of preference."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [os.path.join(runtime, "penstock")] if os.path.isabs(runtime) and os.path.isdir(runtime) else []
    # The second one is for processes without the variable.
    return [*folders, f"/tmp/penstock-{os.geteuid()}"]  # noqa: S108 - checked by `_problem`


def _problem(folder: str) -> str | None:
    """The reason why other users may have access to a folder; None if they have not."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is not a folder"
    if status.st_uid != os.geteuid():
        return f"the folder {folder} belongs to another user"
    if status.st_mode & 0o077:
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
        raise ConfigError(f"attach: {address!r} is not an address: expected http://HOST:PORT, HOST:PORT or unix:/path")
    return host, port or (8001 if parts.scheme == "grpc" else 8000)


def _is_here(host: str) -> bool:
    """True if an address belongs to this machine: only these can be bound."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
        except OSError:
            continue
    return False
