"""`Batches`: files of requests that are computed in the background."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SignatureError
from penstock.openai._batches.options import Options
from penstock.openai._resource import OpenResource, Resource

if TYPE_CHECKING:
    from penstock.openai._table import Table

__all__ = ["Batches"]

DAY = 24 * 3600
ROUTES = (
    "POST files",
    "GET files",
    "GET files/{file}",
    "DELETE files/{file}",
    "GET files/{file}/content",
    "POST batches",
    "GET batches",
    "GET batches/{batch}",
    "POST batches/{batch}/cancel",
)


class Batches(Resource):
    """Serves `/v1/files` and `/v1/batches`, for the endpoints that are declared beside it.

    A batch is a file with a request in each line. The server computes them when there is nothing more urgent, at the
    lowest priority of their models, and writes the responses to another file. What is computed survives the server.

    Args:
        store: Path of the SQLite database with the files and the batches. It is created if it does not exist. Servers
            on one machine may share it: one of them computes the batches.
        max_file_bytes: Limit of the bytes of a file. `max_body_bytes` of the server applies too.
        max_lines: Limit of the requests in a file.
        max_bytes: Limit of the bytes in the store, from which on new files and batches are refused.
        keep_days: Days after which files are deleted, and batches after their end.

    Raises:
        SignatureError: a limit is below 1.

    Example:
        >>> serve(embed, openai.routes(openai.Embeddings(embed), openai.Batches("/var/lib/penstock/batches.sqlite")))
    """

    def __init__(
        self,
        store: str | os.PathLike[str] = "penstock-batches.sqlite",
        *,
        max_file_bytes: int = 100 * 1024**2,
        max_lines: int = 50_000,
        max_bytes: int = 4 * 1024**3,
        keep_days: int = 30,
    ) -> None:
        limits = {
            "max_file_bytes": max_file_bytes,
            "max_lines": max_lines,
            "max_bytes": max_bytes,
            "keep_days": keep_days,
        }
        for name, value in limits.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SignatureError(f"Batches: {name} must be an integer of 1 or more, not {value!r}")
        self._options = Options(Path(store).absolute(), max_file_bytes, max_lines, max_bytes, keep_days * DAY)

    def routes(self) -> tuple[str, ...]:
        """The routes, without the prefix."""
        return ROUTES

    def open(self, table: Table) -> OpenResource:
        """Opens the store on the running event loop of an instance."""
        # A program without batches needs no database.
        from penstock.openai._batches.api import OpenBatches

        return OpenBatches(self._options, table)
