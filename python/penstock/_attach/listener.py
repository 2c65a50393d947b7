"""The server's side of attaching: it listens for processes that come with models."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock._attach import socket_path
from penstock._attach.session import Guest
from penstock._attach.table import Table
from penstock.errors import BindError

if TYPE_CHECKING:
    from penstock import _core
    from penstock._repository.manager import Keeper

__all__ = ["Host"]

_WITHIN = 5.0
"""Seconds that guests have to be gone when the server has stopped."""


class Host:
    """Lets processes attach models to a running server.

    Args:
        setting: Where: `auto`, or `unix:/path`.
        addresses: Where the server listens for HTTP and gRPC, by whose ports it is found with `auto`.
        models: The server's.
        keeper: Of the server's own models.

    Raises:
        BindError: it cannot be listened there.
    """

    def __init__(self, setting: str, addresses: list[str | None], models: _core.Models, keeper: Keeper) -> None:
        from penstock import _core

        self._table = Table(models, keeper)
        self._doors: list[_core.Door] = []
        self._closed = False
        places = _places(setting, addresses)
        self.address = f"unix:{places[0]}"
        """Where it is."""
        try:
            for path in places:
                try:
                    self._doors.append(_core.Door(path))
                except OSError as error:
                    raise BindError(f"attach: cannot listen on unix:{path}: {error}") from None
        except BaseException:
            self.close()
            raise
        for integration in self._doors:
            threading.Thread(target=self._let_in, args=(integration,), name="penstock-integration", daemon=True).start()

    def close(self) -> None:
        """Lets nobody in any more."""
        self._closed = True
        for integration in self._doors:
            integration.close()

    def stop(self, timeout: float | None = None) -> list[str]:
        """Says to all that the server has stopped, and waits a few seconds, whatever the timeout, until they know."""
        del timeout
        self.close()
        guests = list(self._table.guests)
        for guest in guests:
            guest.end("the server has stopped")
        for guest in guests:
            guest.thread.join(_WITHIN)
        return []

    def stuck(self) -> list[str]:
        """Nothing: whoever does not leave is left behind."""
        return []

    def _let_in(self, integration: _core.Door) -> None:
        while not self._closed:
            # A process that is gone again, or descriptors that have run out, are no reason to end.
            with suppress(OSError):
                line = integration.next(60.0)
                if line is not None and socket_path.check_partner(line):
                    self._table.guests.add(Guest(line, self._table))


def _places(setting: str, addresses: list[str | None]) -> list[str]:
    if setting != "auto":
        return [setting.removeprefix("unix:")]
    texts = [address for address in addresses if address is not None and not address.startswith("unix:")]
    ports = dict.fromkeys(int(address.rpartition(":")[2]) for address in texts)
    if not ports:
        raise BindError("attach: auto is found by a port, and the server listens on none; give attach=unix:/path")
    return [socket_path.made(port) for port in ports]
