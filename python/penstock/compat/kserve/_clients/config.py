"""`RESTConfig`: options of a REST client."""

from __future__ import annotations

import ssl
from enum import Enum
from pathlib import Path
from typing import Any, Union

from penstock.compat.kserve._clients.defaults import Timeout

__all__ = ["Certificate", "RESTConfig", "why_httpx"]

Certificate = Union[str, "tuple[str, str]", "tuple[str, str, str | None]", None]


class RESTConfig:
    """Options of an `InferenceRESTClient`.

    Options that the native client does not support need the package httpx: a `transport`, an
    `auth` of httpx's, `http2`, `verify` as False or an `ssl.SSLContext`, a `cert` with a password.

    Args:
        transport: An asynchronous transport of httpx.
        protocol: "v1" or "v2", or a `PredictorProtocol`.
        retries: Additional attempts when the server cannot be reached.
        http2: Whether HTTP/2 may be used.
        timeout: Seconds per call from end to end, None for no limit, or httpx's tuple (connect,
            read, write, pool) or `Timeout`, of which `connect` and `read` count.
        cert: The client's certificate: a PEM file with its key, (certificate, key), or (certificate,
            key, password).
        verify: True for the platform's authorities, a PEM file of authorities, or see above.
        auth: (user, password), or an `auth` of httpx.
        verbose: Whether to log requests and responses.
    """

    def __init__(  # noqa: PLR0917 - KServe's own order
        self,
        transport: Any = None,
        protocol: Any = "v1",
        retries: int = 3,
        http2: bool = False,
        timeout: Timeout = 60,
        cert: Certificate = None,
        verify: str | bool | ssl.SSLContext = True,
        auth: Any = None,
        verbose: bool = False,
    ) -> None:
        self.transport = transport
        self.protocol = protocol.value if isinstance(protocol, Enum) else protocol
        self.retries = retries
        self.http2 = http2
        self.timeout = timeout
        self.cert = cert
        self.verify = verify
        self.auth = auth
        self.verbose = verbose


def why_httpx(config: RESTConfig) -> str | None:
    """Returns the option that needs httpx; None if there is none."""
    if config.transport is not None:
        return "transport"
    if config.http2:
        return "http2"
    if config.auth is not None and not isinstance(config.auth, (tuple, list)):
        return "auth"
    if config.verify is False or isinstance(config.verify, ssl.SSLContext):
        return "verify"
    if isinstance(config.verify, (str, Path)) and Path(config.verify).is_dir():
        return "verify"
    if isinstance(config.cert, (tuple, list)) and len(config.cert) == 3 and config.cert[2] is not None:
        return "cert"
    return None
