"""Status lines of the command line."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

from penstock._runtime.status_line import erase_shown


def echo(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, by default on standard error.

    Errors are ignored: a full disk or a closed pipe must not keep a server from starting or draining.
    """
    erase_shown()
    with suppress(OSError, ValueError):
        print(text, file=stream or sys.stderr, flush=True)
