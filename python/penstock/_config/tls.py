"""TLS of an address, by the settings."""

from __future__ import annotations

from penstock._config.listeners import PLAIN, PROXY

__all__ = ["is_encrypted"]


def is_encrypted(certificates: tuple[str, ...], address: str | None) -> bool:
    """Returns whether an address speaks TLS, as it is configured."""
    if address is None:
        return False
    return bool(certificates) and not address.removeprefix(PROXY).startswith((PLAIN, "unix:"))
