"""A client's options, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

__all__ = ["ClientOptions", "Settings", "seconds", "settings"]


class ClientOptions(TypedDict, total=False):
    """What `Client` and `AsyncClient` take beside the URL. Times are in seconds."""

    timeout: float | None
    """How long a call may take, which the server is told; for a stream, how long each piece. Default 60;
    None is no limit."""
    connect_timeout: float
    """How long a connection may take to be made. Default 10."""
    headers: Mapping[str, str]
    """Headers (gRPC: metadata) of every call, for example `{"Authorization": "Bearer ..."}`."""
    retries: int
    """How many more attempts there may be, of what the server has surely not computed. Default 0."""
    backoff: float
    """The wait before the first retry, which doubles from one to the next. Default 0.05."""
    max_backoff: float
    """The longest wait, also where the server asks for more. Default 5."""
    hedge: float | None
    """After how long a second attempt at an inference starts beside the first; the first good answer
    counts. Default None: never."""
    compression: str | None
    """How requests are compressed: "gzip", "deflate" or "zstd". Default None: not."""
    accept_compression: bool
    """Whether the server may compress its answers. Default False."""
    binary: bool
    """REST: whether tensors travel as raw bytes; False for servers that read JSON only. Default True."""
    max_answer_bytes: int
    """The most bytes of one answer. Default 1 GiB."""
    max_idle: int
    """The most idle connections that are kept. Default 64."""
    ca_file: str | os.PathLike[str] | None
    """A PEM file of the authorities to trust, instead of the platform's."""
    certificate: str | os.PathLike[str] | None
    """A PEM file of the client's own certificate."""
    key: str | os.PathLike[str] | None
    """A PEM file of the key to `certificate`."""
    server_name: str | None
    """The name that the server's certificate must have, instead of the URL's host."""


@dataclass(frozen=True)
class Settings:
    """The options in the compiled part's form."""

    headers: list[tuple[str, str]]
    connect_timeout: float
    retries: int
    backoff: float
    max_backoff: float
    hedge: float | None
    compression: str | None
    accept_compression: bool
    binary: bool
    max_answer_bytes: int
    max_idle: int
    ca_file: str | os.PathLike[str] | None
    certificate: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    server_name: str | None


_DEFAULTS: dict[str, Any] = {
    "headers": {},
    "connect_timeout": 10.0,
    "retries": 0,
    "backoff": 0.05,
    "max_backoff": 5.0,
    "hedge": None,
    "compression": None,
    "accept_compression": False,
    "binary": True,
    "max_answer_bytes": 1 << 30,
    "max_idle": 64,
    "ca_file": None,
    "certificate": None,
    "key": None,
    "server_name": None,
}

DEFAULT_TIMEOUT = 60.0


def settings(given: ClientOptions) -> tuple[Settings, float | None]:
    """The settings, and the default timeout of calls.

    Raises:
        TypeError: an option is not known.
        ValueError: one has a value that it cannot have.
    """
    options: dict[str, Any] = dict(given)
    timeout = seconds("timeout", options.pop("timeout", DEFAULT_TIMEOUT))
    unknown = sorted(options.keys() - _DEFAULTS.keys())
    if unknown:
        known = ", ".join(["timeout", *_DEFAULTS])
        raise TypeError(f"a client has no option {unknown[0]!r}, expected some of {known}")
    options = {**_DEFAULTS, **options}
    for name in ("connect_timeout", "backoff", "max_backoff"):
        options[name] = seconds(name, options[name])
        if options[name] is None:
            raise ValueError(f"{name} is None, expected a number of seconds")
    options["hedge"] = seconds("hedge", options["hedge"])
    for name in ("retries", "max_answer_bytes", "max_idle"):
        if not isinstance(options[name], int) or options[name] < 0:
            raise ValueError(f"{name} is {options[name]!r}, expected an integer of 0 or more")
    options["headers"] = list(options["headers"].items())
    return Settings(**options), timeout


def seconds(name: str, value: float | None) -> float | None:
    """The value, if it is a length of time or None.

    Raises:
        ValueError: it is neither.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise ValueError(f"{name} is {value!r}, expected a number of seconds of 0 or more, or None")
    return float(value)
