"""Access tokens as headers, with different names for HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRITON_ACCESS_HEADER", "create_auth_headers", "extract_access_token_from_headers"]

TRITON_ACCESS_HEADER = "triton-access-token"
_NAMES = {"http": TRITON_ACCESS_HEADER, "grpc": f"triton-grpc-protocol-{TRITON_ACCESS_HEADER}"}


def create_auth_headers(access_token: str | None, protocol: str) -> dict[str, str]:
    """Returns the header of an access token.

    Args:
        access_token: Access token.
        protocol: "http" or "grpc", in upper or lower case.

    Raises:
        ValueError: the token is empty, or the protocol is unknown.

    Example:
        >>> create_auth_headers("secret", "http")
        {'triton-access-token': 'secret'}
    """
    if not access_token:
        raise ValueError("access_token cannot be None or empty")
    protocol = protocol.lower()
    if protocol not in _NAMES:
        raise ValueError(f"Invalid protocol '{protocol}'. Must be 'http' or 'grpc'")
    return {_NAMES[protocol]: access_token}


def extract_access_token_from_headers(headers: Mapping[str, str] | None) -> str | None:
    """Returns the token in headers of either protocol; None without one.

    Raises:
        ValueError: the headers contain two different tokens.
    """
    http, grpc = ((headers or {}).get(_NAMES[protocol]) for protocol in ("http", "grpc"))
    if http is not None and grpc is not None and http != grpc:
        raise ValueError(
            f"Conflicting authentication headers found: '{_NAMES['http']}' and '{_NAMES['grpc']}' contain different "
            "tokens. Please use consistent tokens."
        )
    return http or grpc
