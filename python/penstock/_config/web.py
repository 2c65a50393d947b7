"""Checks of the settings for web pages and proxies: `cors_origins` and `trusted_proxies`."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["ANY", "check_network", "check_origins", "normalised_origin"]

ANY = "*"
"""Entry of `cors_origins` for any origin."""

UNIX = "unix"
"""Entry of `trusted_proxies` for programs that connect to a Unix socket."""

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def normalised_origin(origin: str) -> str:
    """An origin as browsers write it: in lower case, without the default port of its scheme."""
    scheme, found, authority = origin.lower().partition("://")
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS.get(scheme, ' '))}" if found else origin


def check_origins(origins: tuple[str, ...]) -> None:
    """Checks `cors_origins`.

    Raises:
        ValueError: an entry is not an origin, or is beside `*`; the message has the entry.
    """
    if ANY in origins and len(origins) > 1:
        raise ValueError(f"{ANY!r} is any origin, and cannot be listed with others")
    for origin in origins:
        scheme, found, authority = origin.partition("://")
        if origin == ANY:
            continue
        if not found or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) is None:
            raise ValueError(f"{origin!r} has no scheme, expected an origin such as https://app.example")
        if re.fullmatch(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", authority) is None:
            raise ValueError(
                f"{origin!r} is not an origin: expected a scheme, a host and perhaps a port, without a path"
            )


def check_network(entry: str) -> None:
    """Checks one entry of `trusted_proxies`.

    Raises:
        ValueError: it is not an address, a network or `unix`; the message has the entry.
    """
    if entry == UNIX:
        return
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        raise ValueError(f"{entry!r} is not an address, a network such as 10.0.0.0/8, or {UNIX}") from None
    if "/" in entry and str(network.network_address) != str(ipaddress.ip_address(entry.partition("/")[0])):
        raise ValueError(f"{entry!r} is an address within a network, expected {network}")
