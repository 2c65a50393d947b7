"""Addresses for clients of this machine."""

from __future__ import annotations

from penstock.errors import StartupError

__all__ = ["client_address"]


def client_address(address: str | None, protocol: str) -> str:
    """The address that clients of this machine connect to, for one that the server listens on.

    Raises:
        StartupError: the server does not listen.
    """
    if address is None:
        raise StartupError(f"{protocol} is off, or the server is not started")
    # A client cannot connect to the wildcard address.
    for wildcard, loopback in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if address.startswith(wildcard):
            return loopback + address.removeprefix(wildcard)
    return address
