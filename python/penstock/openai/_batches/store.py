"""The store of files and batches, an SQLite database."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from penstock.errors import LoadError

__all__ = ["Store", "used_bytes"]

T = TypeVar("T")

VERSION = 1
"""Version of the tables."""
BUSY_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

TABLES = """
CREATE TABLE files (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, filename TEXT NOT NULL,
    purpose TEXT NOT NULL, bytes INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
);
CREATE TABLE chunks (file TEXT NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (file, n));
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, models TEXT NOT NULL,
    status TEXT NOT NULL, expires_at INTEGER NOT NULL, ended_at INTEGER, keep_outputs INTEGER NOT NULL,
    total INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    document TEXT NOT NULL
);
CREATE TABLE lines (
    batch TEXT NOT NULL, n INTEGER NOT NULL, custom_id TEXT NOT NULL, body BLOB, state INTEGER NOT NULL DEFAULT 0,
    result BLOB, PRIMARY KEY (batch, n)
);
CREATE INDEX lines_by_state ON lines (batch, state, n);
"""


class Store:
    """A database and the thread that uses it, one transaction at a time.

    Args:
        path: Its file, which is created if it does not exist, for its owner only.

    Raises:
        LoadError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-batches")
        self._connection: sqlite3.Connection
        try:
            self._thread.submit(self._open).result()
        except (OSError, sqlite3.Error) as error:
            self._thread.shutdown()
            raise LoadError(f"openai.Batches: the store {path} cannot be opened: {error}") from error
        except LoadError:
            self._thread.shutdown()
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs a transaction: all of it is stored, or nothing if it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    async def close(self) -> None:
        """Waits for running transactions and closes the database."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    def _open(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        # The transactions are explicit.
        self._connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            # With a write-ahead log, a killed process loses nothing, and no commit waits for the disk.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._transaction(self._create_tables)
        except BaseException:
            self._connection.close()
            raise

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif version != VERSION:
            raise LoadError(
                f"openai.Batches: the store {self._path} has tables of version {version}, expected {VERSION}"
            )

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._connection)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return result


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes that the store holds."""
    (pages,), (free,), (size,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
