"""The new server's side of an upgrade: it loads, then takes the sockets and the pid file of the old one.

The lines between the two, on a socket: `ready` from the new one, `take` from the old one, `serving` from the new one.
The old one then closes the socket. In place of any of its lines, the new one may send `failed` and the reason.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock._config.sockets.hand_over import HandOver
from penstock._runtime import forks
from penstock.errors import StartupError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FAILED", "READY", "SERVING", "TAKE", "Successor"]

READY, TAKE, SERVING, FAILED = "ready", "take", "serving", "failed"

_NOTIFY_TIMEOUT = 5.0
"""Seconds that the old server has to name the new one to systemd."""

_LONGEST_REASON = 4096


class Successor:
    """This process, as the one that replaces another.

    Args:
        handed_over: The sockets of the old server.
    """

    def __init__(self, handed_over: HandOver) -> None:
        self.sockets: Sequence[tuple[str, int]] = handed_over.sockets
        """Listening sockets: address in the old server's settings, and descriptor."""
        self._channel = socket.socket(fileno=handed_over.channel)
        numbers = [handed_over.channel, *(number for _, number in self.sockets)]
        for number in numbers:
            os.set_inheritable(number, False)
        forks.keep_from_children(numbers)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self | None:
        """That of the environment; None if the process replaces no other.

        Raises:
            StartupError: the variable is not from a server.
        """
        try:
            handed_over = HandOver.read(environ)
            return None if handed_over is None else cls(handed_over)
        except (ValueError, OSError) as error:
            raise StartupError(str(error)) from None

    def take_over(self, take_pid_file: Callable[[], object], timeout: float) -> None:
        """Returns when this server may serve. Its models are loaded, and it has its own descriptors of the sockets.

        Raises:
            StartupError: the old server does not answer, or the pid file cannot be taken.
        """
        self._close_sockets()
        self._send(READY)
        self._channel.settimeout(timeout or None)
        try:
            # Without an answer the old one is gone, and this one is needed all the more.
            self._channel.recv(64)
        except TimeoutError:
            raise StartupError(f"the old server did not answer within {timeout:g} s") from None
        except OSError:
            pass
        take_pid_file()

    def report_serving(self) -> None:
        """Reports that this server accepts connections. Returns when systemd knows it as the service's process."""
        self._send(SERVING)
        self._channel.settimeout(_NOTIFY_TIMEOUT)
        with suppress(OSError):
            self._channel.recv(64)
        forks.let_children_keep(self._channel.fileno())
        self._channel.close()

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Reports an exception of the block to the old server."""
        try:
            yield
        except StartupError as error:
            self._send(f"{FAILED} {error}")
            raise
        except BaseException as error:
            self._send(f"{FAILED} {type(error).__name__}: {error}")
            raise

    def _send(self, line: str) -> None:
        # An old server that is gone needs no report.
        with suppress(OSError):
            self._channel.sendall(" ".join(line.split())[:_LONGEST_REASON].encode(errors="replace") + b"\n")

    def _close_sockets(self) -> None:
        """Closes the descriptors that came from the old server: the new one has duplicates of those that it needs."""
        for _, number in self.sockets:
            forks.let_children_keep(number)
            with suppress(OSError):
                os.close(number)
