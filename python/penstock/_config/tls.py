"""Checks of the settings of TLS that need no file. The files are read when the server starts."""

from __future__ import annotations

from typing import NamedTuple

from penstock._config.listeners import PLAIN
from penstock.errors import ConfigError

__all__ = ["Tls", "is_encrypted"]


class Tls(NamedTuple):
    """The settings `tls_certificate`, `tls_key`, `tls_client`, `tls_client_ca` and `tls_client_crl`."""

    certificates: tuple[str, ...]
    keys: tuple[str, ...]
    client: str
    client_ca: str | None
    client_crl: str | None

    def check(self) -> None:
        """Checks the settings against each other.

        Raises:
            ConfigError: a setting lacks another one, or has no meaning; the message names both.
        """
        certificates, keys = len(self.certificates), len(self.keys)
        if certificates != keys:
            raise ConfigError(f"tls_certificate: {_counted(certificates, 'certificate')} and {_counted(keys, 'key')}")
        if self.client != "off" and self.client_ca is None:
            raise ConfigError(f"tls_client: {self.client!r} needs tls_client_ca")
        if self.client == "off" and (self.client_ca or self.client_crl):
            name = "tls_client_ca" if self.client_ca else "tls_client_crl"
            raise ConfigError(f"{name}: has no meaning unless tls_client is optional or required")
        if self.client != "off" and not certificates:
            raise ConfigError("tls_client: needs tls_certificate and tls_key")


def is_encrypted(certificates: tuple[str, ...], address: str | None) -> bool:
    """Returns whether an address speaks TLS, as it is configured."""
    return bool(certificates) and address is not None and not address.startswith((PLAIN, "unix:"))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
