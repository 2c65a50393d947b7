"""Listening sockets that the process has from systemd.

systemd passes sockets as descriptors from 3 on, with their number in `LISTEN_FDS`, their names in `LISTEN_FDNAMES`, and
the process that they are for in `LISTEN_PID`; see sd_listen_fds(3). Names are settings here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress

from penstock._config import listeners
from penstock._config.sockets import hand_over
from penstock._runtime import forks

__all__ = ["NAMES", "claim", "names", "texts"]

NAMES = ("http", "grpc", "admin", "metrics")
"""Names of sockets."""

_VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

_FIRST = 3
"""Descriptor of the first socket."""

_MOST = 256
"""Most sockets."""


def names(environ: Mapping[str, str]) -> Sequence[str]:
    """The names of the sockets that are for this process, in the order of their descriptors.

    Raises:
        ValueError: a name is not a setting, or their number is wrong; the message begins with the variable.
    """
    if (handed_over := hand_over.HandOver.read(environ)) is not None:
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
    is_successor = hand_over.current() is not None
    for name in (*_VARIABLES, hand_over.VARIABLE):
        environ.pop(name, None)
    if is_successor:
        # Its sockets have other numbers here, which `Successor` keeps.
        return
    numbers = [number for address in addresses if (number := listeners.descriptor(address)) is not None]
    for number in numbers:
        with suppress(OSError):
            os.set_inheritable(number, False)
    forks.keep_from_children(numbers)
