"""Notifications of systemd: ready, reloading, stopping, and more time for loads and drains.

systemd names a socket in the variable `NOTIFY_SOCKET` for services of the types `notify` and `notify-reload`; see
sd_notify(3). Without it, nothing is sent and no thread runs.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Notifier"]

_EVERY = 5.0
"""Seconds between two requests for more time."""

_EXTENSION = 30.0
"""Seconds that each of them asks for."""


class Notifier:
    """Sender of notifications.

    Args:
        environ: The environment, with the socket if there is one. The variable is left to child processes, whose
            notifications systemd refuses by default.

    Raises:
        ValueError: the variable is not the path of a socket.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET") or None
        if name is not None and name[0] not in "/@":
            raise ValueError(f"NOTIFY_SOCKET: {name!r} is not a path, nor the name of an abstract socket")
        # Linux writes the first byte of abstract names as 0.
        self._address = None if name is None else f"\0{name[1:]}" if name.startswith("@") else name

    def ready(self, status: str) -> None:
        """The server is ready, or has reloaded."""
        self._send(READY="1", STATUS=status)

    def reloading(self) -> None:
        """The server reloads; `ready` follows."""
        self._send(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000), STATUS="reloading")

    def stopping(self, status: str) -> None:
        """The server drains."""
        self._send(STOPPING="1", STATUS=status)

    def replaced(self, process: int, status: str) -> None:
        """Another process is the service's main one from now on. This one sends nothing any more."""
        self._send(MAINPID=str(process), READY="1", STATUS=status)
        self._address = None

    @contextmanager
    def more_time(self, status: str) -> Iterator[None]:
        """Asks for more time while the block runs, which systemd would otherwise end as a start or stop that hangs."""
        if self._address is None:
            yield
            return
        ended = threading.Event()

        def ask() -> None:
            while True:
                self._send(EXTEND_TIMEOUT_USEC=str(int(_EXTENSION * 1e6)), STATUS=status)
                if ended.wait(_EVERY):
                    return

        thread = threading.Thread(target=ask, name="penstock-systemd", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _send(self, **fields: str) -> None:
        # Read once: the thread that asks for more time sends too, and either may find that the manager is gone.
        address = self._address
        if address is None:
            return
        # A line break would begin another field.
        lines = [f"{name}={' '.join(value.split())}" for name, value in fields.items()]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto("\n".join(lines).encode(), address)
        except OSError:
            # The service manager is gone, and the server goes on without it.
            self._address = None
