"""Options of a gRPC client, for the native client or for grpc itself."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

__all__ = ["GrpcOptions", "Metadata", "metadata_of", "with_port"]

Metadata = Union["Iterable[tuple[str, Any]]", Mapping[str, Any], None]

_NO_LIMIT = 1 << 40
# Channel arguments without a visible effect, or that the native client decides itself.
_HINTS = ("grpc.keepalive_", "grpc.http2.", "grpc.max_connection_", "grpc.primary_user_agent", "grpc.dns_")
_SUPPORTED = (
    "grpc.enable_retries",
    "grpc.max_receive_message_length",
    "grpc.max_send_message_length",
    "grpc.ssl_target_name_override",
)


@dataclass
class GrpcOptions:
    """Options of a gRPC client; see `InferenceGRPCClient`."""

    url: str
    use_ssl: bool
    root_certificates: str | None
    private_key: str | None
    certificate_chain: str | None
    creds: Any
    channel_args: list[tuple[str, Any]] | None
    retries: int

    def why_grpc(self) -> str | None:
        """Returns the option that needs the package grpcio; None if there is none."""
        if self.creds is not None:
            return "creds"
        for name, _ in self.channel_args or ():
            if name not in _SUPPORTED and not name.startswith(_HINTS):
                return f"channel_args {name!r}"
        return None

    def native_url(self) -> str:
        """Returns the native client's URL."""
        encrypted = "grpcs" if self.use_ssl else "grpc"
        url = self.url
        if url.startswith("unix:"):
            return f"grpc+{url}"
        for scheme in ("dns:///", "dns:", "ipv4:", "ipv6:"):
            url = url.removeprefix(scheme)
        return f"{encrypted}://{url}"

    def native(self) -> dict[str, Any]:
        """Returns the native client's options."""
        given = dict(self.channel_args or ())
        most = given.get("grpc.max_receive_message_length", -1)
        return {
            "timeout": None,
            "retries": self.retries if given.get("grpc.enable_retries", 1) else 0,
            "backoff": 0.1,
            "max_backoff": 1.0,
            "max_answer_bytes": most if most >= 0 else _NO_LIMIT,
            "ca_file": self.root_certificates if self.use_ssl else None,
            "certificate": self.certificate_chain if self.use_ssl else None,
            "key": self.private_key if self.use_ssl else None,
            "server_name": given.get("grpc.ssl_target_name_override"),
        }

    def most_sent(self) -> int:
        """Returns the limit of a request in bytes."""
        most: int = dict(self.channel_args or ()).get("grpc.max_send_message_length", -1)
        return most if most >= 0 else _NO_LIMIT


def with_port(url: str, use_ssl: bool) -> str:
    """Returns the address with its port, by default 80 or 443."""
    return url if ":" in url else f"{url}:{443 if use_ssl else 80}"


def metadata_of(headers: Metadata) -> dict[str, str]:
    """Returns metadata as one text per name."""
    sent: dict[str, str] = {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    for key, value in pairs:
        name = key.lower()
        text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
        sent[name] = f"{sent[name]},{text}" if name in sent else text
    return sent
