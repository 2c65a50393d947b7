"""What the command tells whoever started it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, by default on standard error.

    A log without space, or a reader who has gone, must not keep a server from starting or from draining.
    """
    with suppress(OSError, ValueError):
        print(text, file=stream or sys.stderr, flush=True)
