"""`TritonSecurityConfig`: the endpoints that require a token."""

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
"""Names of the endpoint groups that can be protected."""

DEFAULT_PROTECTED_ENDPOINTS = ["shared-memory", "model-repository", "statistics", "trace", "logging"]
"""Protected endpoint groups by default."""

TRITON_ACCESS_HEADER = "triton-access-token"
"""Header of the token. gRPC uses the prefix `triton-grpc-protocol-`."""


@dataclass
class TritonSecurityConfig:
    """Endpoints that require a token.

    Raises:
        PyTritonValidationError: an endpoint group is unknown; the message names it.
    """

    access_token: str | None = field(default=None, repr=False)
    """Access token. None generates one, unless no endpoint is protected."""
    restricted_endpoints: list[str] | None = None
    """Protected endpoint groups. None means `DEFAULT_PROTECTED_ENDPOINTS`, an empty list means none."""

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


def access_rules(security: TritonSecurityConfig, *user_rules: str | None) -> str | None:
    """Returns Penstock's `restricted_access`: the rule of the security configuration, else the user's own rules.

    Args:
        security: Token and endpoints, which take precedence over the rules.
        user_rules: Rules in Triton's form, `CATEGORY[,CATEGORY...]:HEADER=SECRET`.

    Raises:
        PyTritonValidationError: the token cannot be sent in a header.
    """
    token, endpoints = security.access_token, security.restricted_endpoints
    if endpoints and token:
        _check(token)
        return f"{','.join(endpoints)}:{TRITON_ACCESS_HEADER}={token}"
    if endpoints:
        LOGGER.warning("The access token is empty, so these endpoints are not protected: %s", ", ".join(endpoints))
    return ";".join(dict.fromkeys(rule for rule in user_rules if rule)) or None


def _check(token: str) -> None:
    # Penstock's setting gives a meaning to `;` and to the prefixes, and HTTP strips spaces at both ends.
    plain = token.isascii() and token.isprintable() and token == token.strip()
    if not plain or ";" in token or token.startswith(("env:", "file:")):
        raise PyTritonValidationError(
            "The access token must be printable ASCII text without ';', without spaces at its ends, "
            "and without the prefixes 'env:' and 'file:'"
        )
