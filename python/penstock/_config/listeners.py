"""`listeners`: further addresses of the server, each as KIND=ADDRESS."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from penstock._config.sockets import hand_over

__all__ = [
    "DEFAULT_HOST",
    "KINDS",
    "PLAIN",
    "PROXY",
    "bare",
    "check_conflicts",
    "check_entry",
    "descriptor",
    "entry_with_host",
    "is_address",
    "is_local",
    "with_host",
]

DEFAULT_HOST = "127.0.0.1"
"""Host of an address that is a port alone. Other machines cannot reach it, which an address has to ask for."""

PLAIN = "plain:"
"""Prefix of an address without TLS."""

PROXY = "proxy:"
"""Prefix of an address whose connections begin with a header of the PROXY protocol; before `PLAIN`."""

KINDS = ("http", "grpc", "metrics")
"""Kinds of listeners."""

_EXPECTED = (
    f"{', '.join(f'{kind}=ADDRESS' for kind in KINDS[:-1])} or {KINDS[-1]}=ADDRESS, "
    "where ADDRESS is HOST:PORT or PORT with a port from 0 to 65535, unix:/path, or fd:N"
)


def is_address(value: object) -> bool:
    """Returns whether a value is HOST:PORT, unix:/path or fd:N, which may begin with proxy:, plain:, or both."""
    if not isinstance(value, str):
        return False
    value = bare(value)
    if value.startswith("unix:"):
        return len(value) > len("unix:") and "\0" not in value
    if value.startswith("fd:"):
        return descriptor(value) is not None
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})", value)
    return match is not None and int(match[2]) <= 65535


def bare(address: str) -> str:
    """The address without prefixes."""
    return address.removeprefix(PROXY).removeprefix(PLAIN)


def descriptor(address: str | None) -> int | None:
    """The number of fd:N, a listening socket that the process has inherited; None for other addresses."""
    # Those below are the standard streams.
    match = re.fullmatch(r"fd:([3-9]|[1-9][0-9]{1,5})", bare(address or ""))
    return None if match is None else int(match[1])


def is_local(address: str) -> bool:
    """Returns whether only programs of this machine reach an address, and not a proxy's clients."""
    if address.startswith(PROXY):
        return False
    if (number := descriptor(address)) is not None:
        return _is_local_socket(number)
    address = bare(address)
    host = address.rpartition(":")[0].strip("[]")
    if address.startswith("unix:") or host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _is_local_socket(number: int) -> bool:
    if (handed_over := hand_over.current()) is not None:
        number = dict(handed_over.sockets).get(f"fd:{number}", number)
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as inherited:
        if inherited.family in (socket.AF_INET, socket.AF_INET6):
            return is_local(f"{inherited.getsockname()[0]}:0")
    # A Unix socket, or none, which the start refuses.
    return True


def with_host(text: Any) -> Any:
    """An address, or KIND=ADDRESS, where a port alone (`9000`, `:9000`) is one of this machine; others unchanged."""
    kind, equals, address = text.rpartition("=") if isinstance(text, str) else ("", "", text)
    if isinstance(address, str) and (match := re.fullmatch(rf"((?:{PROXY})?(?:{PLAIN})?):?([0-9]{{1,5}})", address)):
        return f"{kind}{equals}{match[1]}{DEFAULT_HOST}:{match[2]}"
    return text


def entry_with_host(entry: Any) -> Any:
    """A listener whose address may be a port alone; others unchanged."""
    return with_host(entry) if isinstance(entry, str) and "=" in entry else entry


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
