"""`TritonUrl`: a server's address in the form of PyTriton's users."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import urlparse

from penstock.compat.pytriton.client.exceptions import PyTritonClientInvalidUrlError
from penstock.compat.pytriton.constants import DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT

__all__ = ["TritonUrl"]

_PORTS = {"http": DEFAULT_HTTP_PORT, "grpc": DEFAULT_GRPC_PORT}


@dataclasses.dataclass
class TritonUrl:
    """A server's address: a scheme, a host and a port.

    Example:
        >>> TritonUrl.from_url("grpc://localhost").with_scheme
        'grpc://localhost:8001'
    """

    scheme: str
    """"http" or "grpc"."""
    hostname: str
    port: int

    @classmethod
    def from_url(cls, url: Any) -> TritonUrl:
        """Parses `host`, `host:port`, `http://host[:port]` or `grpc://host[:port]`; a path is ignored.

        Raises:
            PyTritonClientInvalidUrlError: the URL has another form.
        """
        if not isinstance(url, str):
            raise PyTritonClientInvalidUrlError(f"Invalid url {url}. Url must be a string.")
        try:
            parsed = urlparse(url if "://" in url else f"http://{url}")
            if parsed.scheme not in _PORTS:
                raise ValueError(f"Invalid scheme {parsed.scheme}. Only grpc and http are supported.")
            if not parsed.hostname:
                raise ValueError("There is no host.")
            return cls(parsed.scheme, parsed.hostname, parsed.port or _PORTS[parsed.scheme])
        except ValueError as error:
            raise PyTritonClientInvalidUrlError(f"Invalid url {url}") from error

    @property
    def with_scheme(self) -> str:
        """`scheme://host:port`."""
        return f"{self.scheme}://{self.without_scheme}"

    @property
    def without_scheme(self) -> str:
        """`host:port`."""
        # IPv6 addresses need brackets, because a colon starts the port.
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{host}:{self.port}"
