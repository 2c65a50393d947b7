"""Answers to requests about files and batches."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import penstock
from penstock._runtime.event_loop import own_queue
from penstock.errors import HandlerError, LoadError
from penstock.openai._batches import files, jobs
from penstock.openai._batches.options import Options
from penstock.openai._batches.store import Store, used_bytes
from penstock.openai._batches.worker import Worker
from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._form import Form
from penstock.openai._resource import Given, OpenResource
from penstock.openai._table import Table

if TYPE_CHECKING:
    from sqlite3 import Connection

    from penstock._core import Context, Request

__all__ = ["OpenBatches"]

SHORTEST_KEPT, LONGEST_KEPT = 3600, 30 * 24 * 3600
"""Bounds of the seconds that a client may have its files kept, as at OpenAI."""
MOST_FILES, MOST_BATCHES = 10_000, 100
"""Limits of a page of a list."""
MOST_METADATA, MOST_KEY, MOST_VALUE = 16, 64, 512
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST_WINDOW = 30 * 86_400


class OpenBatches(OpenResource):
    """Files and batches on the event loop of an instance.

    Raises:
        LoadError: the store cannot be opened.
    """

    def __init__(self, options: Options, table: Table) -> None:
        if (queue := own_queue.get()) is None:
            raise LoadError("openai.Batches: the routes must run on a thread of the server, not in a process")
        self._options, self._table = options, table
        self._store = Store(options.store)
        self._worker = Worker(self._store, options.store, table, queue, most_lines=options.max_lines, keep=options.keep)
        self._answers: dict[str, Callable[[Request, Context, str], Awaitable[Given]]] = {
            "POST files": self._upload,
            "GET files": self._list_files,
            "GET files/{file}": self._file,
            "DELETE files/{file}": self._delete_file,
            "GET files/{file}/content": self._content,
            "POST batches": self._create,
            "GET batches": self._list_batches,
            "GET batches/{batch}": self._batch,
            "POST batches/{batch}/cancel": self._cancel,
        }

    async def answer(self, route: str, request: Request, ctx: Context) -> Given:
        """Returns the response to a request to one of the routes."""
        client = ctx.client
        owner = f"{client.kind}:{client.name}" if client.kind in ("key", "certificate") else ""
        return await self._answers[route](request, ctx, owner)

    async def close(self) -> None:
        """Ends the worker and closes the store."""
        await self._worker.close()
        await self._store.close()

    async def _upload(self, request: Request, ctx: Context, owner: str) -> Given:
        form = Form(request, {})
        purpose = form.needed("purpose")
        if purpose != "batch":
            raise Refused(f"'purpose' must be 'batch', not {str(purpose)[:100]!r}", "purpose")
        given = form.file("file")
        keep = _kept(form, "expires_after", self._options.keep)
        size, most = len(given.content), self._options.max_file_bytes
        if size > most:
            raise Refused(f"'file' has {size} bytes, expected {most} at most", "file", status=413)
        if size == 0:
            raise Refused("'file' is empty", "file")
        file = files.File(owner, given.filename or "", "batch", keep)

        def upload(connection: Connection) -> dict[str, Any]:
            self._check_room(connection, size, "file")
            return files.add_file(connection, file, [given.content])

        return await self._store.run(upload)

    async def _list_files(self, request: Request, ctx: Context, owner: str) -> Given:
        query = _query(request, ("after", "limit", "order", "purpose"))
        limit = _limit(query, MOST_FILES, MOST_FILES)
        if (order := query.get("order", "desc")) not in ("asc", "desc"):
            raise Refused(f"'order' must be 'asc' or 'desc', not {order[:100]!r}", "order")

        def read(connection: Connection) -> list[dict[str, Any]]:
            return files.list_files(
                connection,
                owner,
                purpose=query.get("purpose"),
                after=_after(query, lambda identity: files.file_of(connection, owner, identity)),
                limit=limit,
                newest=order == "desc",
            )

        return _page(await self._store.run(read), limit)

    async def _file(self, request: Request, ctx: Context, owner: str) -> Given:
        identity = request.path_params["file"]
        found = await self._store.run(lambda connection: files.file_of(connection, owner, identity))
        return found or _missing("file", identity)

    async def _delete_file(self, request: Request, ctx: Context, owner: str) -> Given:
        identity = request.path_params["file"]
        if not await self._store.run(lambda connection: files.delete_file(connection, owner, identity)):
            _missing("file", identity)
        return {"id": identity, "object": "file", "deleted": True}

    async def _content(self, request: Request, ctx: Context, owner: str) -> Given:
        identity = request.path_params["file"]
        found = await self._store.run(lambda connection: files.file_of(connection, owner, identity))
        return self._chunks(found or _missing("file", identity))

    async def _chunks(self, file: dict[str, Any]) -> AsyncGenerator[Any, None]:
        left, index = int(file["bytes"]), 0
        while left:
            if (chunk := await self._chunk(file["id"], index)) is None:
                # Otherwise it would look complete.
                raise HandlerError(f"file {file['id']} was deleted while it was read")
            yield chunk if index else penstock.Response(chunk, content_type="application/octet-stream")
            left, index = left - len(chunk), index + 1

    async def _chunk(self, identity: str, index: int) -> bytes | None:
        return await self._store.run(lambda connection: files.chunk_of(connection, identity, index))

    async def _create(self, request: Request, ctx: Context, owner: str) -> Given:
        body = Body(request.body)
        for name in ("input_file_id", "endpoint", "completion_window"):
            body.needed(name)
        window = body.get("completion_window", str, "")
        identity = body.get("input_file_id", str, "")
        models = {one.model.name for named in self._table.by_path.values() for one, _ in named.values()}
        given = jobs.NewBatch(
            owner=owner,
            models=sorted(filter(ctx.client.may_use, models)),
            endpoint=self._endpoint(body),
            completion_window=window,
            seconds=_seconds(window),
            metadata=_metadata(body),
            input_file_id=identity,
            keep_outputs=_kept(body, "output_expires_after", self._options.keep),
        )

        def create(connection: Connection) -> dict[str, Any]:
            file = files.file_of(connection, owner, identity)
            if file is None or file["purpose"] != "batch":
                raise Refused(
                    f"'input_file_id' {identity[:100]!r} is not the id of a file with the purpose 'batch'",
                    "input_file_id",
                )
            self._check_room(connection, file["bytes"], "input_file_id")
            return jobs.add_batch(connection, given)

        made = await self._store.run(create)
        self._worker.notice()
        return made

    def _endpoint(self, body: Body) -> str:
        endpoint = body.get("endpoint", str, "")
        known = [path for path in self._table.by_path if self._table.any_endpoint(path).takes_json]
        if endpoint not in known:
            raise Refused(f"'endpoint' must be one of {', '.join(known)}, not {endpoint[:100]!r}", "endpoint")
        return endpoint

    async def _list_batches(self, request: Request, ctx: Context, owner: str) -> Given:
        query = _query(request, ("after", "limit"))
        limit = _limit(query, 20, MOST_BATCHES)

        def read(connection: Connection) -> list[dict[str, Any]]:
            after = _after(query, lambda identity: jobs.batch_of(connection, owner, identity))
            return jobs.list_batches(connection, owner, after=after, limit=limit)

        return _page(await self._store.run(read), limit)

    async def _batch(self, request: Request, ctx: Context, owner: str) -> Given:
        identity = request.path_params["batch"]
        found = await self._store.run(lambda connection: jobs.batch_of(connection, owner, identity))
        return found or _missing("batch", identity)

    async def _cancel(self, request: Request, ctx: Context, owner: str) -> Given:
        identity = request.path_params["batch"]

        def cancel(connection: Connection) -> dict[str, Any]:
            known = jobs.batch_of(connection, owner, identity) or _missing("batch", identity)
            if not jobs.change_status(connection, identity, "cancelling", ["validating", "in_progress"]):
                raise Refused(
                    f"Batch {identity!r} has the status {known['status']!r}, and cannot be cancelled", status=409
                )
            return jobs.batch_of(connection, owner, identity) or {}

        changed = await self._store.run(cancel)
        self._worker.notice()
        return changed

    def _check_room(self, connection: Connection, size: int, param: str) -> None:
        used, most = used_bytes(connection), self._options.max_bytes
        if used + size > most:
            raise Refused(
                f"the store has {used} of {most} bytes, so {size} more do not fit: delete files",
                param,
                status=413,
                code="storage_full",
            )


def _missing(kind: str, identity: str) -> Any:
    raise Refused(f"No such {kind}: {identity[:100]!r}", "id", status=404, code="not_found")


def _query(request: Request, known: tuple[str, ...]) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(request.query).items() if name in known}


def _limit(query: dict[str, str], default: int, most: int) -> int:
    text = query.get("limit", str(default))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise Refused(f"'limit' must be an integer from 1 to {most}, not {text[:100]!r}", "limit")
    return int(text)


def _after(query: dict[str, str], find: Callable[[str], dict[str, Any] | None]) -> str | None:
    after = query.get("after")
    if after is not None and find(after) is None:
        raise Refused(f"'after' must be the id of an item of the list, not {after[:100]!r}", "after")
    return after


def _page(found: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    shown = found[:limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return {"object": "list", "data": shown, **ends, "has_more": len(found) > limit}


def _kept(body: Body, name: str, default: int) -> int:
    """Seconds after which files are deleted, from a member with `anchor` and `seconds`."""
    given = body.get(name, dict, {})
    if not given:
        return default
    if given.get("anchor") != "created_at":
        raise Refused(f"'{name}.anchor' must be 'created_at'", f"{name}.anchor")
    seconds = str(given.get("seconds"))
    if not re.fullmatch(r"\d{1,9}", seconds, re.ASCII) or not SHORTEST_KEPT <= int(seconds) <= LONGEST_KEPT:
        raise Refused(f"'{name}.seconds' must be an integer from {SHORTEST_KEPT} to {LONGEST_KEPT}", f"{name}.seconds")
    return int(seconds)


def _seconds(window: str) -> int:
    """Seconds of a completion window."""
    parts = re.fullmatch(r"(\d{1,7})([smhd])", window, re.ASCII)
    seconds = int(parts[1]) * UNITS[parts[2]] if parts else 0
    if not 1 <= seconds <= LONGEST_WINDOW:
        raise Refused(
            f"'completion_window' must be a time such as '24h', from 1s to 30d, not {window[:100]!r}",
            "completion_window",
        )
    return seconds


def _metadata(body: Body) -> dict[str, str] | None:
    given = body.get("metadata", dict, {})
    if len(given) > MOST_METADATA:
        raise Refused(f"'metadata' has {len(given)} members, expected {MOST_METADATA} at most", "metadata")
    for name, value in given.items():
        if len(name) > MOST_KEY or not isinstance(value, str) or len(value) > MOST_VALUE:
            raise Refused(
                f"'metadata' must have names of {MOST_KEY} characters and texts of {MOST_VALUE} at most", "metadata"
            )
    return given or None
