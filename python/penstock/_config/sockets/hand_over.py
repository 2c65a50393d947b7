"""Sockets that a server leaves to the one that replaces it, as the variable `PENSTOCK_UPGRADE` describes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["VARIABLE", "HandOver", "current"]

VARIABLE = "PENSTOCK_UPGRADE"


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOver:
    """Description of the sockets."""

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


@cache
def current() -> HandOver | None:
    """That of this process, which leaves the environment before code of the user runs; None without one."""
    with suppress(ValueError):
        return HandOver.read(os.environ)
    return None
