"""`Keys`: the API keys, of which only digests are kept."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from penstock.compat.modelbit.errors import BadCall

__all__ = ["Keys", "digests"]


def digests(keys: Iterable[str]) -> tuple[str, ...]:
    """What is kept of keys: enough to know them again, also in processes whose code is not to learn them."""
    return tuple(_digest(key) for key in keys)


class Keys:
    """The API keys.

    Args:
        kept: Their digests; without any nothing is looked at.
        required: Whether a request must have one.
    """

    def __init__(self, kept: Iterable[str], required: bool) -> None:
        self._kept, self._required = [*kept], required

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuses who has none of them.

        Raises:
            BadCall: that is so.
        """
        if not self._kept:
            return
        given = headers.get("authorization")
        if given is None:
            if self._required:
                raise BadCall("an API key is needed: send it as the header Authorization", 401)
            return
        digest = _digest(given.removeprefix("Bearer ").strip())
        found = [hmac.compare_digest(digest, one) for one in self._kept]
        if not any(found):
            raise BadCall("the API key is not valid", 401)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
