"""Errors of addresses that cannot be listened on, with the process that has the address, and the setting to change."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._config.listeners import bare
from penstock.errors import BindError

if TYPE_CHECKING:
    from penstock.config import ServerConfig

__all__ = ["explained", "holder_of"]

_LISTENING = "0A"
"""State of a listening socket in /proc/net/tcp."""

_PROC = Path("/proc")


def explained(error: BindError, config: ServerConfig) -> BindError:
    """The error with the process that listens on its address, where that can be known, and the setting's flag."""
    text = str(error)
    refused = next((entry for entry in _addresses(config) if f" {entry[1]}: " in text), None)
    if refused is None or "in use" not in text:
        return error
    (setting, kind), address = refused
    port = address.rpartition(":")[2]
    holder = holder_of(int(port)) if port.isdigit() and not address.startswith("unix:") else None
    by = f": process {holder[0]} ({holder[1]}) has it" if holder else ""
    value = f"{kind}=ADDRESS" if setting == "listeners" else "HOST:PORT"
    return BindError(f"{text}{by}; choose another with --{setting} {value}, or port 0 for a free one")


def _addresses(config: ServerConfig) -> list[tuple[tuple[str, str], str]]:
    """Address by setting, and kind of listener."""
    main = [(("http", "http"), config.http), (("grpc", "grpc"), config.grpc)]
    others = [(("listeners", kind), address) for kind, _, address in (one.partition("=") for one in config.listeners)]
    return [(setting, bare(address)) for setting, address in [*main, *others] if address not in (None, "same")]


def holder_of(port: int) -> tuple[int, str] | None:
    """Number and name of the process that listens on a TCP port; None if it is not known, as for other users'."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return None
    for process in _PROC.iterdir():
        if process.name.isdigit() and _has_open(process, sockets):
            try:
                # Not its arguments, which may have secrets.
                return int(process.name), (process / "comm").read_text(errors="replace").strip()
            except OSError:
                return None
    return None


def _listening(port: int) -> list[str]:
    """The inodes of sockets that listen on a TCP port."""
    inodes = []
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "self" / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            match = re.match(r"\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ ([0-9A-F]{2}) (?:\S+ +){5}(\d+)", line)
            if match and match[2] == _LISTENING and int(match[1], 16) == port:
                inodes.append(match[3])
    return inodes


def _has_open(process: Path, sockets: set[str]) -> bool:
    try:
        descriptors = os.listdir(process / "fd")
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if os.readlink(process / "fd" / descriptor) in sockets:
                return True
        except OSError:
            continue
    return False
