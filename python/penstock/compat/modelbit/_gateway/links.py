"""Result links: stored responses behind signed URLs that expire."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

from penstock.compat.modelbit.errors import RequestError
from penstock.integrations.files import temporary_folder

__all__ = ["Links"]


class Links:
    """Responses stored in files, addressed by signed tokens.

    Args:
        folder: Where to store them; None for a temporary folder that is deleted when the process ends.
        seconds: How long a link is valid.
    """

    def __init__(self, folder: str | None, seconds: float) -> None:
        self._folder = Path(folder) if folder else None
        self._seconds = seconds
        self._key = secrets.token_bytes(32)

    def store(self, body: bytes) -> str:
        """Stores a response and returns its token."""
        folder = self._folder = self._folder or temporary_folder("penstock-links-")
        folder.mkdir(parents=True, exist_ok=True)
        self._delete_expired(folder)
        name, until = secrets.token_hex(16), int(time.time() + self._seconds) + 1
        path = folder / f"{name}.json"
        path.touch(mode=0o600)
        path.write_bytes(body)
        return f"{name}.{until}.{self._signature(name, until)}"

    def fetch(self, token: str) -> bytes:
        """Returns the response of a token.

        Raises:
            RequestError: the token is not one of this server (404), or has expired (410).
        """
        name, _, rest = token.partition(".")
        until, _, signature = rest.partition(".")
        is_time = until.isascii() and until.isdigit() and len(until) < 16
        if not is_time or not hmac.compare_digest(signature.encode(), self._signature(name, int(until)).encode()):
            raise RequestError("there is no such link", 404)
        if time.time() >= int(until):
            raise RequestError("the link is not valid any more", 410)
        try:
            return ((self._folder or Path()) / f"{name}.json").read_bytes()
        except OSError:
            raise RequestError("the link is not valid any more", 410) from None

    def _signature(self, name: str, until: int) -> str:
        return hmac.new(self._key, f"{name}.{until}".encode(), hashlib.sha256).hexdigest()

    def _delete_expired(self, folder: Path) -> None:
        oldest = time.time() - self._seconds - 1
        for path in folder.glob("*.json"):
            try:
                if len(path.stem) == 32 and path.stat().st_mtime < oldest:
                    path.unlink()
            except OSError:  # Deleted by another thread or process.
                continue
