"""Answers that are fetched by a link, which is valid for a while."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

from penstock.compat.modelbit._spec.temporary_folder import own_folder
from penstock.compat.modelbit.errors import BadCall

__all__ = ["Links"]


class Links:
    """Keeps answers in files, and knows them by signed names.

    Args:
        folder: Where; None for a folder of its own that ends with the process.
        seconds: How long a link is valid.
    """

    def __init__(self, folder: str | None, seconds: float) -> None:
        self._folder = Path(folder) if folder else None
        self._seconds = seconds
        self._key = secrets.token_bytes(32)

    def keep(self, body: bytes) -> str:
        """Keeps an answer, and gives what it is fetched by."""
        folder = self._folder = self._folder or own_folder("penstock-links-")
        folder.mkdir(parents=True, exist_ok=True)
        self._sweep(folder)
        name, until = secrets.token_hex(16), int(time.time() + self._seconds) + 1
        path = folder / f"{name}.json"
        path.touch(mode=0o600)
        path.write_bytes(body)
        return f"{name}.{until}.{self._signed(name, until)}"

    def fetch(self, token: str) -> bytes:
        """What was kept.

        Raises:
            BadCall: it was not given for anything here, or is not valid any more.
        """
        name, _, rest = token.partition(".")
        until, _, signed = rest.partition(".")
        is_time = until.isascii() and until.isdigit() and len(until) < 16
        if not is_time or not hmac.compare_digest(signed.encode(), self._signed(name, int(until)).encode()):
            raise BadCall("there is no such link", 404)
        if time.time() >= int(until):
            raise BadCall("the link is not valid any more", 410)
        try:
            return ((self._folder or Path()) / f"{name}.json").read_bytes()
        except OSError:
            raise BadCall("the link is not valid any more", 410) from None

    def _signed(self, name: str, until: int) -> str:
        return hmac.new(self._key, f"{name}.{until}".encode(), hashlib.sha256).hexdigest()

    def _sweep(self, folder: Path) -> None:
        """Lets go of what nobody can fetch any more."""
        oldest = time.time() - self._seconds - 1
        for path in folder.glob("*.json"):
            try:
                if len(path.stem) == 32 and path.stat().st_mtime < oldest:
                    path.unlink()
            except OSError:  # Another swept it.
                continue
