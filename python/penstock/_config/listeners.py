"""`listeners`: further addresses of the server, each as KIND=ADDRESS."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["KINDS", "check_conflicts", "check_entry", "is_address"]

KINDS = ("http", "grpc", "metrics")
"""Kinds of listeners."""

_EXPECTED = (
    f"{', '.join(f'{kind}=ADDRESS' for kind in KINDS[:-1])} or {KINDS[-1]}=ADDRESS, "
    "where ADDRESS is HOST:PORT with a port from 0 to 65535, or unix:/path"
)


def is_address(value: object) -> bool:
    """Returns whether a value is HOST:PORT or unix:/path."""
    if not isinstance(value, str):
        return False
    if value.startswith("unix:"):
        return len(value) > len("unix:") and "\0" not in value
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})", value)
    return match is not None and int(match[2]) <= 65535


def check_entry(entry: str) -> None:
    """Checks one listener.

    Raises:
        ValueError: not KIND=ADDRESS; the message has the entry and the accepted forms.
    """
    kind, _, address = entry.partition("=")
    if kind not in KINDS or not is_address(address):
        raise ValueError(f"{entry!r} is not {_EXPECTED}")


def check_conflicts(entries: Iterable[str], http: str | None, grpc: str | None) -> None:
    """Checks the listeners against each other and against the main addresses.

    Raises:
        ValueError: a main address is off, or two listeners cannot share an address; the message has the entry.
    """
    main = {"http": http, "grpc": http if grpc == "same" else grpc}
    known = {(kind, address) for kind, address in main.items() if address is not None}
    for entry in entries:
        kind, _, address = entry.partition("=")
        if kind in main and main[kind] is None:
            raise ValueError(f"{entry!r} needs {kind}, which is off")
        # REST and gRPC share an address. Each port 0 becomes another port.
        shares = {("http", address), ("grpc", address)} - {(kind, address)} if kind in main else set()
        if not address.endswith(":0") and any(other[1] == address for other in known - shares):
            raise ValueError(f"{entry!r} has the address of another listener")
        known.add((kind, address))
