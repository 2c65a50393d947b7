"""`TritonSecurityConfig`: which parts of a server ask for a token. Some do unless told otherwise."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field

from penstock.compat.pytriton.exceptions import PyTritonValidationError

__all__ = [
    "DEFAULT_PROTECTED_ENDPOINTS",
    "TRITON_ACCESS_HEADER",
    "VALID_TRITON_ENDPOINTS",
    "TritonSecurityConfig",
    "access_rules",
]

LOGGER = logging.getLogger("pytriton.triton")

VALID_TRITON_ENDPOINTS = {
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
}
"""What can be protected."""

DEFAULT_PROTECTED_ENDPOINTS = ["shared-memory", "model-repository", "statistics", "trace", "logging"]
"""What is protected where nothing is said."""

TRITON_ACCESS_HEADER = "triton-access-token"
"""The header of the token; over gRPC with `triton-grpc-protocol-` before it."""


@dataclass
class TritonSecurityConfig:
    """Which parts of a server ask for a token.

    Raises:
        PyTritonValidationError: there is no such part; the message names it.
    """

    access_token: str | None = field(default=None, repr=False)
    """The token; None for a new one, unless nothing is protected."""
    restricted_endpoints: list[str] | None = None
    """What is protected; None for `DEFAULT_PROTECTED_ENDPOINTS`, empty for nothing."""

    def __post_init__(self) -> None:
        if self.restricted_endpoints is None:
            self.restricted_endpoints = [*DEFAULT_PROTECTED_ENDPOINTS]
        if unknown := set(self.restricted_endpoints) - VALID_TRITON_ENDPOINTS:
            raise PyTritonValidationError(
                f"Invalid endpoint names: {', '.join(sorted(map(str, unknown)))}. "
                f"Valid endpoints are: {', '.join(sorted(VALID_TRITON_ENDPOINTS))}"
            )
        if self.access_token is None and self.restricted_endpoints:
            self.access_token = secrets.token_urlsafe(32)


def access_rules(security: TritonSecurityConfig, *own: str | None) -> str | None:
    """Penstock's `restricted_access`: what the security asks for, else a user's own rules.

    Args:
        security: Stands above the rules.
        own: Rules in Triton's form, `CATEGORY[,CATEGORY...]:HEADER=SECRET`.

    Raises:
        PyTritonValidationError: the token cannot be sent in a header.
    """
    token, endpoints = security.access_token, security.restricted_endpoints
    if endpoints and token:
        _check(token)
        return f"{','.join(endpoints)}:{TRITON_ACCESS_HEADER}={token}"
    if endpoints:
        LOGGER.warning("The access token is empty, so nothing asks for it: %s", ", ".join(endpoints))
    return ";".join(dict.fromkeys(one for one in own if one)) or None


def _check(token: str) -> None:
    # Beginnings and separators mean something in Penstock's setting, and spaces at the ends are lost on the wire.
    plain = token.isascii() and token.isprintable() and token == token.strip()
    if not plain or ";" in token or token.startswith(("env:", "file:")):
        raise PyTritonValidationError(
            "The access token must be printable ASCII text without ';', that begins and ends with no space, "
            "nor begins with 'env:' or 'file:'"
        )
