"""From an address that is listened on to one that clients of this machine connect to."""

from __future__ import annotations

from penstock.errors import StartupError

__all__ = ["reachable"]


def reachable(address: str | None, protocol: str) -> str:
    """Where clients reach an address.

    Raises:
        StartupError: there is none.
    """
    if address is None:
        raise StartupError(f"{protocol} is off, or the server is not started")
    # "All interfaces" is an address to listen on, not one to connect to.
    for everywhere, here in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if address.startswith(everywhere):
            return here + address.removeprefix(everywhere)
    return address
