"""TLS of an address, by the settings."""

from __future__ import annotations

from penstock._config.listeners import PLAIN

__all__ = ["is_encrypted"]


def is_encrypted(certificates: tuple[str, ...], address: str | None) -> bool:
    """Returns whether an address speaks TLS, as it is configured."""
    return bool(certificates) and address is not None and not address.startswith((PLAIN, "unix:"))
