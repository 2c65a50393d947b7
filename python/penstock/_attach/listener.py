"""Server side of attaching: accepts the connections of attaching processes."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock._attach import socket_path
from penstock._attach.session import Session
from penstock._attach.table import AttachedModels
from penstock.errors import BindError

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.model_table import ModelTable

__all__ = ["Listener"]

_STOP_TIMEOUT = 5.0
"""Seconds that each session has to end when the server has stopped."""

_ACCEPT_TIMEOUT = 60.0


class Listener:
    """Accepts processes that attach models to a running server.

    Args:
        setting: `auto`, or `unix:/path`.
        addresses: The server's HTTP and gRPC addresses. With `auto`, their ports name the sockets.
        models: The server's models.
        own: The server's own models, whose names cannot be attached.

    Raises:
        BindError: a socket cannot be listened on.
    """

    def __init__(self, setting: str, addresses: list[str | None], models: _core.ModelRegistry, own: ModelTable) -> None:
        from penstock import _core

        self._table = AttachedModels(models, own)
        self._sessions: set[Session] = set()
        self._sockets: list[_core.Listener] = []
        self._closed = False
        paths = _socket_paths(setting, addresses)
        self.address = f"unix:{paths[0]}"
        """Address of the first socket."""
        try:
            for path in paths:
                try:
                    self._sockets.append(_core.Listener(path))
                except OSError as error:
                    raise BindError(f"attach: cannot listen on unix:{path}: {error}") from None
        except BaseException:
            self.close()
            raise
        for socket in self._sockets:
            threading.Thread(target=self._accept, args=(socket,), name="penstock-listener", daemon=True).start()

    def close(self) -> None:
        """Stops accepting connections."""
        self._closed = True
        for socket in self._sockets:
            socket.close()

    def stop(self, timeout: float | None = None) -> list[str]:
        """Ends all sessions, and waits up to 5 seconds for each. Ignores `timeout`."""
        del timeout
        self.close()
        sessions = list(self._sessions)
        for session in sessions:
            session.end("the server has stopped")
        for session in sessions:
            session.thread.join(_STOP_TIMEOUT)
        return []

    def stuck(self) -> list[str]:
        """Empty: a session that does not end is abandoned."""
        return []

    def _accept(self, socket: _core.Listener) -> None:
        while not self._closed:
            # A process that is already gone, or a lack of descriptors, must not end the listener.
            with suppress(OSError):
                connection = socket.accept(_ACCEPT_TIMEOUT)
                if connection is not None and socket_path.check_peer(connection):
                    Session(connection, self._table, self._sessions)


def _socket_paths(setting: str, addresses: list[str | None]) -> list[str]:
    if setting != "auto":
        return [setting.removeprefix("unix:")]
    tcp = [address for address in addresses if address is not None and not address.startswith("unix:")]
    ports = dict.fromkeys(int(address.rpartition(":")[2]) for address in tcp)
    if not ports:
        raise BindError("attach: auto is found by a port, and the server listens on none; give attach=unix:/path")
    return [socket_path.create(port) for port in ports]
