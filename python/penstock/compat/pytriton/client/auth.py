"""Access tokens as headers, which HTTP and gRPC name differently."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TRITON_ACCESS_HEADER", "create_auth_headers", "extract_access_token_from_headers"]

TRITON_ACCESS_HEADER = "triton-access-token"
_NAMES = {"http": TRITON_ACCESS_HEADER, "grpc": f"triton-grpc-protocol-{TRITON_ACCESS_HEADER}"}


def create_auth_headers(access_token: str | None, protocol: str) -> dict[str, str]:
    """The header that carries a token.

    Args:
        access_token: The token.
        protocol: "http" or "grpc", in any case.

    Raises:
        ValueError: there is no token, or no such protocol.

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
    """The token that headers of either protocol carry; None if there is none.

    Raises:
        ValueError: they carry two that differ.
    """
    http, grpc = ((headers or {}).get(_NAMES[protocol]) for protocol in ("http", "grpc"))
    if http is not None and grpc is not None and http != grpc:
        raise ValueError(
            f"Conflicting authentication headers found: '{_NAMES['http']}' and '{_NAMES['grpc']}' contain different "
            "tokens. Please use consistent tokens."
        )
    return http or grpc
