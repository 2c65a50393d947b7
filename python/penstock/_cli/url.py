"""`PENSTOCK_URL`: the server of client commands whose command line names none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["COMMANDS", "VARIABLE", "with_default"]

VARIABLE = "PENSTOCK_URL"
COMMANDS = ("infer", "bench", "attach")
"""Commands whose first argument is the server's URL."""

_URL = re.compile(r"[a-z+]+://|(?:grpc\+)?unix:")


def with_default(given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line with the variable's URL, if it is for a client command and has no URL."""
    words, url = list(given), environ.get(VARIABLE)
    if not url or words[:1] == [] or words[0] not in COMMANDS or any(_URL.match(word) for word in words[1:]):
        return words
    return [words[0], url, *words[1:]]
