"""Batches and their lines in the store."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from penstock.openai._batches.files import File, add_file

__all__ = [
    "OPEN",
    "Job",
    "Line",
    "NewBatch",
    "add_batch",
    "add_lines",
    "batch_of",
    "change_status",
    "delete_old_batches",
    "end_batch",
    "fail_batch",
    "list_batches",
    "new_request_id",
    "open_batches",
    "record_result",
    "waiting_lines",
]

OPEN = ("validating", "in_progress", "finalizing", "cancelling")
"""Statuses of a batch that has not ended."""
ENDED = ("completed", "failed", "expired", "cancelled")
"""Its last statuses."""
WAITING, SUCCEEDED, FAILED = 0, 1, 2
"""States of a line."""
MOST_OPEN, MOST_OPEN_OF_OWNER = 64, 4
"""Limits of batches that run at once, of all clients and of one."""

OPEN_BATCHES = """
SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY seq) AS place FROM batches WHERE ended_at IS NULL
) WHERE place <= ? OR status = 'cancelling' OR expires_at <= ? ORDER BY seq LIMIT ?
"""


class Job(NamedTuple):
    """A batch that has not ended.

    Attributes:
        id: Its id.
        owner: Its client.
        models: Names of the models that its client may use.
        endpoint: Path of its requests.
        status: Its status.
        input_file_id: Id of its input.
        expires_at: Time at which it expires, in seconds of the epoch.
    """

    id: str
    owner: str
    models: frozenset[str]
    endpoint: str
    status: str
    input_file_id: str
    expires_at: int


class Line(NamedTuple):
    """A request of a batch.

    Attributes:
        n: Its number in the input, from 1.
        custom_id: Its name.
        body: Its body.
    """

    n: int
    custom_id: str
    body: bytes


class NewBatch(NamedTuple):
    """A batch that a client creates.

    Attributes:
        owner: Its client.
        models: Names of the models that its client may use.
        endpoint: Path of its requests.
        completion_window: Time until it expires, as the client gave it.
        seconds: That time in seconds.
        metadata: Metadata of the client.
        input_file_id: Id of its input.
        keep_outputs: Seconds after which its output files are deleted.
    """

    owner: str
    models: list[str]
    endpoint: str
    completion_window: str
    seconds: int
    metadata: dict[str, str] | None
    input_file_id: str
    keep_outputs: int


def add_batch(connection: sqlite3.Connection, given: NewBatch) -> dict[str, Any]:
    """Stores a batch, and returns its document."""
    now, identity = int(time.time()), f"batch_{uuid.uuid4().hex}"
    document = {
        "id": identity,
        "object": "batch",
        "endpoint": given.endpoint,
        "errors": None,
        "input_file_id": given.input_file_id,
        "completion_window": given.completion_window,
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + given.seconds,
        **{f"{status}_at": None for status in (*OPEN[1:], *ENDED)},
        "metadata": given.metadata,
    }
    connection.execute(
        """INSERT INTO batches (id, owner, models, status, expires_at, keep_outputs, document)
           VALUES (?, ?, ?, 'validating', ?, ?, ?)""",
        (
            identity,
            given.owner,
            json.dumps(given.models),
            now + given.seconds,
            given.keep_outputs,
            json.dumps(document),
        ),
    )
    found = batch_of(connection, given.owner, identity)
    assert found is not None
    return found


def batch_of(connection: sqlite3.Connection, owner: str, identity: str) -> dict[str, Any] | None:
    """The document of a batch; None if the client has no such batch."""
    row = connection.execute("SELECT * FROM batches WHERE id = ? AND owner = ?", (identity, owner)).fetchone()
    return None if row is None else _document(row)


def list_batches(connection: sqlite3.Connection, owner: str, *, after: str | None, limit: int) -> list[dict[str, Any]]:
    """Documents of a client's batches, the newest first, one more than the limit if there are more."""
    rows = connection.execute(
        """SELECT * FROM batches WHERE owner = ? AND (? IS NULL OR seq < (SELECT seq FROM batches WHERE id = ?))
           ORDER BY seq DESC LIMIT ?""",
        (owner, after, after, limit + 1),
    )
    return list(map(_document, rows))


def open_batches(connection: sqlite3.Connection) -> list[Job]:
    """The batches that may run now, the oldest of each client."""
    found = []
    for row in connection.execute(OPEN_BATCHES, (MOST_OPEN_OF_OWNER, int(time.time()), MOST_OPEN)):
        document = json.loads(row["document"])
        names = {name: document[name] for name in ("endpoint", "input_file_id")}
        columns = {name: row[name] for name in ("id", "owner", "status", "expires_at")}
        found.append(Job(models=frozenset(json.loads(row["models"])), **names, **columns))
    return found


def change_status(
    connection: sqlite3.Connection, identity: str, status: str, known: Iterable[str], **changes: object
) -> bool:
    """Changes the status of a batch that has one of the known ones, and members of its document.

    Returns false if it has another status.
    """
    row = connection.execute("SELECT status, document FROM batches WHERE id = ?", (identity,)).fetchone()
    if row is None or row["status"] not in known:
        return False
    now = int(time.time())
    document = {**json.loads(row["document"]), f"{status}_at": now, **changes}
    connection.execute(
        "UPDATE batches SET status = ?, ended_at = ?, document = ? WHERE id = ?",
        (status, now if status in ENDED else None, json.dumps(document), identity),
    )
    return True


def fail_batch(connection: sqlite3.Connection, identity: str, errors: list[dict[str, Any]]) -> None:
    """Ends a batch whose input is wrong."""
    change_status(connection, identity, "failed", ["validating"], errors={"object": "list", "data": errors})


def add_lines(connection: sqlite3.Connection, identity: str, lines: Iterable[Line]) -> None:
    """Stores the lines of a batch, which is in progress then."""
    added = connection.executemany(
        "INSERT INTO lines (batch, n, custom_id, body) VALUES (?, ?, ?, ?)", ((identity, *line) for line in lines)
    )
    connection.execute("UPDATE batches SET total = ? WHERE id = ?", (added.rowcount, identity))
    change_status(connection, identity, "in_progress", ["validating"])


def waiting_lines(connection: sqlite3.Connection, identity: str, after: int, most: int) -> list[Line]:
    """The next lines without a result."""
    rows = connection.execute(
        "SELECT n, custom_id, body FROM lines WHERE batch = ? AND state = ? AND n > ? ORDER BY n LIMIT ?",
        (identity, WAITING, after, most),
    )
    return [Line(*row) for row in rows]


def record_result(connection: sqlite3.Connection, identity: str, line: Line, result: bytes, *, succeeded: bool) -> None:
    """Stores the result of a line, once."""
    changed = connection.execute(
        "UPDATE lines SET state = ?, result = ?, body = NULL WHERE batch = ? AND n = ? AND state = ?",
        (SUCCEEDED if succeeded else FAILED, result, identity, line.n, WAITING),
    )
    if changed.rowcount:
        connection.execute(
            "UPDATE batches SET completed = completed + ?, failed = failed + ? WHERE id = ?",
            (succeeded, not succeeded, identity),
        )


def end_batch(connection: sqlite3.Connection, identity: str, status: str, unfinished: dict[str, str]) -> None:
    """Writes the files of a batch, and gives it its last status.

    Args:
        connection: The store.
        identity: The batch.
        status: Its last status.
        unfinished: The member `error` of lines without a result.
    """
    row = connection.execute("SELECT * FROM batches WHERE id = ?", (identity,)).fetchone()
    made = {}
    for kind, succeeded in (("output", True), ("error", False)):
        rows = connection.execute(
            "SELECT custom_id, result FROM lines WHERE batch = ? AND (state = ?) = ? ORDER BY n",
            (identity, SUCCEEDED, succeeded),
        )
        pieces = _results(rows, unfinished)
        if (first := next(pieces, None)) is not None:
            file = File(row["owner"], f"{identity}_{kind}.jsonl", "batch_output", row["keep_outputs"])
            made[f"{kind}_file_id"] = add_file(connection, file, itertools.chain([first], pieces))["id"]
    change_status(connection, identity, status, OPEN, **made)
    connection.execute("DELETE FROM lines WHERE batch = ?", (identity,))


def delete_old_batches(connection: sqlite3.Connection, keep: int) -> None:
    """Deletes batches that ended long ago."""
    connection.execute("DELETE FROM batches WHERE ended_at <= ?", (int(time.time()) - keep,))


def _results(rows: Iterable[sqlite3.Row], unfinished: dict[str, str]) -> Iterator[bytes]:
    for custom_id, result in rows:
        if result is not None:
            yield bytes(result) + b"\n"
            continue
        document = {"id": new_request_id(), "custom_id": custom_id, "response": None, "error": unfinished}
        yield json.dumps(document).encode() + b"\n"


def new_request_id() -> str:
    """A new id of a line's result."""
    return f"batch_req_{uuid.uuid4().hex}"


def _document(row: sqlite3.Row) -> dict[str, Any]:
    counts = {name: row[name] for name in ("total", "completed", "failed")}
    return {**json.loads(row["document"]), "status": row["status"], "request_counts": counts}
