"""Listening sockets that the process has inherited: from systemd, or from a server that it replaces.

systemd passes sockets as descriptors from 3 on, with their number in `LISTEN_FDS`, their names in `LISTEN_FDNAMES`, and
the process that they are for in `LISTEN_PID`; see sd_listen_fds(3). Names are settings here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock._config import listeners
from penstock._runtime import forks

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NAMES", "VARIABLE", "HandOver", "claim", "names", "texts"]

NAMES = ("http", "grpc", "admin", "metrics")
"""Names of sockets."""

VARIABLE = "PENSTOCK_UPGRADE"
"""Variable with the `HandOver` to a new server, which replaces the one that started it."""

_VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

_FIRST = 3
"""Descriptor of the first socket."""

_MOST = 256
"""Most sockets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOver:
    """Sockets that a server leaves to the one that replaces it."""

    channel: int
    """Descriptor of the socket between the two processes."""
    sockets: Sequence[tuple[str, int]]
    """Listening sockets: address in the old server's settings, and descriptor."""
    names: Sequence[str]
    """Names of the sockets that the old server had from systemd."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self | None:
        """That of the environment; None without one.

        Raises:
            ValueError: the variable is not from a server.
        """
        text = environ.get(VARIABLE)
        if text is None:
            return None
        import json

        try:
            fields = json.loads(text)
            sockets = [(str(address), int(number)) for address, number in fields["sockets"]]
            return cls(channel=int(fields["channel"]), sockets=sockets, names=[*map(str, fields["names"])])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{VARIABLE} is not from a server that is upgraded; unset it") from None

    def text(self) -> str:
        """The value of the variable."""
        import json

        return json.dumps(asdict(self))


def names(environ: Mapping[str, str]) -> Sequence[str]:
    """The names of the sockets that are for this process, in the order of their descriptors.

    Raises:
        ValueError: a name is not a setting, or their number is wrong; the message begins with the variable.
    """
    if (handed_over := HandOver.read(environ)) is not None:
        return handed_over.names
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return ()
    count = environ.get("LISTEN_FDS", "")
    if not (count.isdecimal() and count.isascii() and int(count) <= _MOST):
        raise ValueError(f"LISTEN_FDS: {count!r} is not a number of sockets, expected one from 0 to {_MOST}")
    found = environ["LISTEN_FDNAMES"].split(":") if environ.get("LISTEN_FDNAMES") else []
    expected = f"expected {', '.join(NAMES[:-1])} or {NAMES[-1]}: set FileDescriptorName= in the socket unit"
    if len(found) != int(count):
        raise ValueError(f"LISTEN_FDNAMES has {len(found)} names for {count} sockets; for each {expected}")
    for name in found:
        if name not in NAMES:
            raise ValueError(f"LISTEN_FDNAMES names {name!r}, no such address; {expected}")
    if found.count("admin") > 1:
        raise ValueError("LISTEN_FDNAMES names 'admin' twice, expected it once")
    return found


def texts(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that the sockets are, as text: `fd:3` for `http`.

    Raises:
        ValueError: as `names`.
    """
    found: dict[str, str] = {}
    further = []
    for number, name in enumerate(names(environ), _FIRST):
        if name == "metrics" or name in found:
            further.append(f"{name}=fd:{number}")
        else:
            found[name] = f"fd:{number}"
    return {**found, "listeners": ",".join(further)} if further else found


def claim(addresses: Iterable[str | None], environ: MutableMapping[str, str]) -> None:
    """Keeps inherited sockets from child processes, and their variables too.

    Args:
        addresses: The addresses of the settings; None for those that are off.
        environ: The environment of this process.
    """
    for name in _VARIABLES:
        environ.pop(name, None)
    numbers = [number for address in addresses if (number := listeners.descriptor(address)) is not None]
    for number in numbers:
        with suppress(OSError):
            os.set_inheritable(number, False)
    forks.keep_from_children(numbers)
