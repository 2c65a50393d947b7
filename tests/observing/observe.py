"""Helpers of scripts that run under another product and under Penstock: record outcomes as JSON lines.

Imports no other test module, because it also runs in the environment of the other product.
"""

from __future__ import annotations

import json
import os
import random
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

warnings.simplefilter("ignore")

PORTS = range(20000, 32768)
"""Ports that are not ephemeral by Linux' default."""


def show(case: str, call: Callable[[], Any]) -> None:
    """Records the result or the exception of a call."""
    try:
        outcome = {"gives": plain(call())}
    except Exception as error:  # each is a result
        outcome = {"raises": [type(error).__name__, str(error)]}
    write_line({"case": case, **outcome})


def write_line(line: dict[str, Any]) -> None:
    """Appends a line to a separate file, because a server may log to standard output."""
    with open(os.environ["OBSERVED"], "a") as file:
        file.write(json.dumps(line) + "\n")


def plain(value: Any) -> Any:
    """Converts a value to JSON that distinguishes types and shapes."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind
        return {
            "array": "bytes" if kind in "OS" else value.dtype.name,
            "shape": value.shape,
            "of": plain(value.tolist()),
        }
    if isinstance(value, np.generic):
        return {type(value).__name__: plain(value.item())}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple, Iterator)):
        return [plain(one) for one in value]
    if isinstance(value, type):
        return {"type": value.__name__}
    if hasattr(value, "__dataclass_fields__"):
        return {type(value).__name__: {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}}
    return {type(value).__name__: plain(getattr(value, "name", "?"))}


def free_ports(count: int) -> list[int]:
    """Ports that are free now, for servers that cannot choose one themselves.

    They are below the ephemeral range, from which port 0 is served: while a server starts, which may take
    a minute, no other test gets one.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        with socket.socket() as tried:
            try:
                tried.bind(("0.0.0.0", port))
            except OSError:
                continue
            found.append(port)
    return found
