"""Files in the store."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["File", "add_file", "chunk_of", "delete_file", "expire_files", "file_of", "list_files"]

CHUNK = 1024 * 1024
"""Bytes of a file that are read at once."""

NEWEST = """
SELECT * FROM files WHERE owner = ? AND expires_at > ? AND (? IS NULL OR purpose = ?)
AND (? IS NULL OR seq < (SELECT seq FROM files WHERE id = ?)) ORDER BY seq DESC LIMIT ?
"""
OLDEST = """
SELECT * FROM files WHERE owner = ? AND expires_at > ? AND (? IS NULL OR purpose = ?)
AND (? IS NULL OR seq > (SELECT seq FROM files WHERE id = ?)) ORDER BY seq LIMIT ?
"""


class File(NamedTuple):
    """A file.

    Attributes:
        owner: Its client.
        filename: Its name.
        purpose: `batch` or `batch_output`.
        keep: Seconds until it is deleted.
    """

    owner: str
    filename: str
    purpose: str
    keep: int


def add_file(connection: sqlite3.Connection, file: File, pieces: Iterable[bytes]) -> dict[str, Any]:
    """Stores a file, and returns its document."""
    now, identity = int(time.time()), f"file-{uuid.uuid4().hex}"
    size = 0
    for index, chunk in enumerate(_chunks(pieces)):
        size += len(chunk)
        connection.execute("INSERT INTO chunks VALUES (?, ?, ?)", (identity, index, chunk))
    connection.execute(
        "INSERT INTO files (id, owner, filename, purpose, bytes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (identity, file.owner, file.filename, file.purpose, size, now, now + file.keep),
    )
    found = file_of(connection, file.owner, identity)
    assert found is not None
    return found


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks of full size, except the last one."""
    waiting = bytearray()
    for piece in pieces:
        for begin in range(0, len(piece), CHUNK):
            waiting += piece[begin : begin + CHUNK]
            if len(waiting) >= CHUNK:
                yield bytes(waiting[:CHUNK])
                del waiting[:CHUNK]
    if waiting:
        yield bytes(waiting)


def file_of(connection: sqlite3.Connection, owner: str, identity: str) -> dict[str, Any] | None:
    """The document of a file; None if the client has no such file."""
    row = connection.execute(
        "SELECT * FROM files WHERE id = ? AND owner = ? AND expires_at > ?", (identity, owner, int(time.time()))
    ).fetchone()
    return None if row is None else _document(row)


def list_files(
    connection: sqlite3.Connection, owner: str, *, purpose: str | None, after: str | None, limit: int, newest: bool
) -> list[dict[str, Any]]:
    """Documents of a client's files, one more than the limit if there are more."""
    rows = connection.execute(
        NEWEST if newest else OLDEST, (owner, int(time.time()), purpose, purpose, after, after, limit + 1)
    )
    return list(map(_document, rows))


def chunk_of(connection: sqlite3.Connection, identity: str, index: int) -> bytes | None:
    """A chunk of a file; None after the last one."""
    row = connection.execute("SELECT data FROM chunks WHERE file = ? AND n = ?", (identity, index)).fetchone()
    return None if row is None else bytes(row[0])


def delete_file(connection: sqlite3.Connection, owner: str, identity: str) -> bool:
    """Deletes a file. Returns false if the client has no such file."""
    if file_of(connection, owner, identity) is None:
        return False
    connection.execute("DELETE FROM chunks WHERE file = ?", (identity,))
    connection.execute("DELETE FROM files WHERE id = ?", (identity,))
    return True


def expire_files(connection: sqlite3.Connection) -> None:
    """Deletes files whose time is over."""
    now = int(time.time())
    connection.execute("DELETE FROM chunks WHERE file IN (SELECT id FROM files WHERE expires_at <= ?)", (now,))
    connection.execute("DELETE FROM files WHERE expires_at <= ?", (now,))


def _document(row: sqlite3.Row) -> dict[str, Any]:
    names = ("id", "bytes", "created_at", "expires_at", "filename", "purpose")
    return {**{name: row[name] for name in names}, "object": "file", "status": "processed"}
