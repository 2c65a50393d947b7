"""Options of clients: types, defaults and checks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from penstock._spec.suggestions import suggestion

__all__ = ["Call", "ClientOptions", "How", "Settings", "seconds", "settings"]

Call = tuple[
    str, str, str, "list[tuple[str, Any, str | None]]", "list[str]", "list[tuple[str, bool | int | float | str]]"
]
"""Model, version, id, inputs, outputs, parameters."""
How = tuple["list[tuple[str, str]]", "float | None"]
"""Headers and timeout of a call, in the form of the compiled extension."""


class ClientOptions(TypedDict, total=False):
    """Options of `Client` and `AsyncClient`. Times are in seconds."""

    timeout: float | None
    """Time limit of a call, which is sent to the server; of a stream, for each chunk. Default 60; None is no
    limit."""
    connect_timeout: float
    """Time limit for connecting. Default 10."""
    headers: Mapping[str, str]
    """Headers (gRPC: metadata) of every call, for example `{"Authorization": "Bearer ..."}`."""
    retries: int
    """Further attempts for requests that the server has certainly not computed. Default 0."""
    backoff: float
    """Wait before the first retry; it doubles at each further one. Default 0.05."""
    max_backoff: float
    """Limit of the wait, even if the server requests a longer one. Default 5."""
    hedge: float | None
    """Time after which a second attempt at an inference starts; the first successful response counts. Default
    None: never."""
    compression: str | None
    """Compression of requests: "gzip", "deflate" or "zstd". Default None: none."""
    accept_compression: bool
    """True if the server may compress responses. Default False."""
    binary: bool
    """REST: whether tensors are sent as raw bytes; False for servers that read JSON only. Default True."""
    max_answer_bytes: int
    """Limit of bytes of one response. Default 1 GiB."""
    max_idle: int
    """Limit of idle connections. Default 64."""
    ca_file: str | os.PathLike[str] | None
    """PEM file of trusted certificate authorities, in place of the platform's."""
    certificate: str | os.PathLike[str] | None
    """PEM file of the client's certificate."""
    key: str | os.PathLike[str] | None
    """PEM file of the key of `certificate`."""
    server_name: str | None
    """Name to expect in the server's certificate, in place of the URL's host."""


@dataclass(frozen=True)
class Settings:
    """Options in the form of the compiled extension."""

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
        TypeError: an unknown option.
        ValueError: an invalid value.
    """
    options: dict[str, Any] = dict(given)
    timeout = seconds("timeout", options.pop("timeout", DEFAULT_TIMEOUT))
    unknown = sorted(options.keys() - _DEFAULTS.keys())
    if unknown:
        known = ", ".join(["timeout", *_DEFAULTS])
        hint = suggestion(unknown[0], ["timeout", *_DEFAULTS])
        raise TypeError(f"a client has no option {unknown[0]!r}{hint or ','} expected some of {known}")
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
    """Checks a duration. Returns it, or None.

    Raises:
        ValueError: not a duration.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise ValueError(f"{name} is {value!r}, expected a number of seconds of 0 or more, or None")
    return float(value)
