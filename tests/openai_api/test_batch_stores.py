"""`openai.Batches`: its store, over drains, kills and several servers."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from pathlib import Path

import httpx
import pytest
from batch_helpers import Recorded, await_status, begin, by_name, client_of_server, prompts, results, run, text_of
from openai import NotFoundError, OpenAI
from openai_helpers import ServeModels

from penstock import LoadError, Server, model, openai
from penstock.openai._table import Table
from serving_process import Serving
from waiting import PATIENCE, until


@model
def complete(prompt: str) -> str:
    return prompt.upper()


def test_one_server_computes_the_batches_of_a_shared_store(tmp_path: Path) -> None:
    models = [Recorded(), Recorded()]
    first, second = (
        Server(
            one.model,
            openai.routes(openai.Completions(one.model), openai.Batches(tmp_path / "store")),
            http="127.0.0.1:0",
            grpc=None,
        )
        for one in models
    )
    for one in models:
        one.gate.open()
    with first:
        run(client_of_server(first), prompts("x"))
        with second:
            client = client_of_server(second)
            _, found = run(client, prompts("a", "b"))
            assert {name: text_of(one) for name, one in found.items()} == {"a": "A", "b": "B"}
            assert ([sorted(one.seen) for one in models]) == [["a", "b", "x"], []]
            first.stop()
            run(client, prompts("c"))
            assert models[1].seen == ["c"]


def test_draining_server_begins_no_line_and_the_next_one_continues(tmp_path: Path) -> None:
    permits = threading.Semaphore(0)
    seen: list[str] = []

    @model(name="complete")
    def limited(prompt: str) -> str:
        seen.append(prompt)
        assert permits.acquire(timeout=PATIENCE)
        return prompt.upper()

    def server() -> Server:
        routes = openai.routes(openai.Completions(limited), openai.Batches(tmp_path / "store"))
        return Server(limited, routes, http="127.0.0.1:0", grpc=None)

    names = [f"line {index}" for index in range(20)]
    with server() as first:
        identity = begin(client_of_server(first), prompts(*names))
        permits.release(3)
        until(lambda: len(seen) == 4)
        stopping = threading.Thread(target=first.stop)
        stopping.start()
        until(lambda: refuses(f"{first.http_url}/v2/health/ready"))
        permits.release(100)
        stopping.join(PATIENCE)
    assert seen == names[:4]
    with server() as second:
        client = client_of_server(second)
        batch = await_status(client, identity, "completed")
        found = by_name(results(client, batch.output_file_id))
    assert list(found) == names
    # The result of the fourth one may not have been stored before the end.
    assert set(seen) == set(names)
    assert len(seen) in (20, 21)


def refuses(url: str) -> bool:
    try:
        return httpx.get(url).status_code != 200
    except httpx.HTTPError:
        return True


APP = r"""
import os, time
from pathlib import Path
from penstock import model, openai

here = Path(os.environ["BATCH_TEST"])

@model
def complete(prompt: str) -> str:
    with (here / "log").open("a") as log:
        log.write(prompt + "\n")
    if int(prompt) >= 20:
        until = time.monotonic() + 60
        while not (here / "go").exists() and time.monotonic() < until:
            time.sleep(0.01)
    return prompt * 2

routes = openai.routes(openai.Completions(complete), openai.Batches(here / "store"))
"""


def test_killed_server_continues_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    names = [str(index) for index in range(40)]

    def serving() -> Serving:
        return Serving(
            "app.py",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            folder=tmp_path,
            environment={"BATCH_TEST": str(tmp_path)},
        )

    def client_of_process(server: Serving) -> OpenAI:
        return OpenAI(base_url=f"{server.http}/v1", api_key="-", max_retries=0, timeout=PATIENCE)

    def log() -> list[str]:
        return (tmp_path / "log").read_text().split()

    with serving() as server:
        client = client_of_process(server)
        identity = begin(client, prompts(*names))
        until(lambda: client.batches.retrieve(identity).request_counts.completed == 20)  # type: ignore[union-attr]
        until(lambda: "20" in log())
        server.process.kill()
        server.process.wait(PATIENCE)
    assert log() == names[:21]
    (tmp_path / "go").touch()
    with serving() as server:
        client = client_of_process(server)
        batch = await_status(client, identity, "completed")
        found = results(client, batch.output_file_id)
    assert [one["custom_id"] for one in found] == names
    assert [text_of(one) for one in found] == [name * 2 for name in names]
    assert (batch.error_file_id, batch.request_counts.completed) == (None, 40)
    # Only the line that was computed at the kill is computed a second time.
    assert log() == [*names[:21], *names[20:]]


def test_lines_of_an_endpoint_that_is_gone_fail(client_of: ServeModels, tmp_path: Path) -> None:
    with (tmp_path / "store.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        routes = openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store"))
        with Server(complete, routes, http="127.0.0.1:0", grpc=None) as server:
            identity = begin(client_of_server(server), prompts("a"))
    chat = openai.Chat(complete, template=str)
    client = client_of(complete, openai.routes(chat, openai.Batches(tmp_path / "store")))
    batch = await_status(client, identity, "completed")
    (found,) = results(client, batch.error_file_id)
    assert found["response"]["status_code"] == 404
    assert found["response"]["body"]["error"]["message"] == "'/v1/completions' is not served any more"


def test_unusable_stores_fail_the_load(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"not a database" * 100)
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    for path, text in (
        (tmp_path / "none" / "store", "cannot be opened"),
        (tmp_path / "other", "cannot be opened: file is not a database"),
        (tmp_path / "newer", "has tables of version 9, expected 1"),
    ):
        routes = openai.routes(openai.Completions(complete), openai.Batches(path))
        with pytest.raises(LoadError, match=text):
            Server(complete, routes, http="127.0.0.1:0", grpc=None).start()


def test_routes_in_another_process_are_refused(tmp_path: Path) -> None:
    table = Table([openai.Completions(complete)], "/v1")
    with pytest.raises(LoadError, match="the routes must run on a thread of the server, not in a process"):
        openai.Batches(tmp_path / "store").open(table)


def test_store_is_readable_by_its_owner_only(client_of: ServeModels, tmp_path: Path) -> None:
    client_of(complete, openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store")))
    assert {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("store", "store-wal", "store-shm", "store.lock"), 0
    )


def test_expired_files_and_old_batches_are_deleted(client_of: ServeModels, tmp_path: Path) -> None:
    def routes() -> object:
        return openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store"))

    with Server(complete, routes(), http="127.0.0.1:0", grpc=None) as server:
        client = client_of_server(server)
        batch, _ = run(client, prompts("a"))
        connection = sqlite3.connect(tmp_path / "store")
        with connection:
            connection.execute("UPDATE files SET expires_at = 1")
            connection.execute("UPDATE batches SET ended_at = 1")
        with pytest.raises(NotFoundError):
            client.files.content(batch.output_file_id)
        assert [*client.files.list()] == []
    # The worker deletes when it begins, and once a minute.
    client_of(complete, routes())
    for count in ("SELECT COUNT(*) FROM files", "SELECT COUNT(*) FROM chunks", "SELECT COUNT(*) FROM batches"):
        until(lambda count=count: connection.execute(count).fetchone() == (0,), count)  # type: ignore[misc]
    connection.close()
