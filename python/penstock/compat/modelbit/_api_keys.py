"""API keys, held as digests."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from penstock.compat.modelbit.errors import RequestError

__all__ = ["ApiKeys"]


class ApiKeys:
    """Checks the API key of a request.

    Args:
        digests: Digests of the valid keys; empty disables the check.
        required: Whether a request without a key is rejected.
    """

    def __init__(self, digests: Iterable[str], required: bool) -> None:
        self._digests, self._required = [*digests], required

    def check(self, headers: Mapping[str, str]) -> None:
        """Rejects a request without a valid key.

        Raises:
            RequestError: the key is missing or invalid (401).
        """
        if not self._digests:
            return
        header = headers.get("authorization")
        if header is None:
            if self._required:
                raise RequestError("an API key is needed: send it as the header Authorization", 401)
            return
        digest = key_digest(header.removeprefix("Bearer ").strip())
        # All digests are compared, in constant time each.
        matches = [hmac.compare_digest(digest, one) for one in self._digests]
        if not any(matches):
            raise RequestError("the API key is not valid", 401)


def key_digests(keys: Iterable[str]) -> tuple[str, ...]:
    """Returns the digests of keys. Worker processes get these, so that deployments' code cannot read the keys."""
    return tuple(key_digest(key) for key in keys)


def key_digest(key: str) -> str:
    """Returns the digest of a key."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
