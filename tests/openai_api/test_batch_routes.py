"""Routes of files and batches: lists, contents, limits and refusals."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from batch_helpers import await_status, begin, prompts, run, upload
from openai import APIStatusError, ConflictError, NotFoundError, OpenAI
from openai_helpers import ServeModels

from penstock import model, openai
from penstock.testing import Client, Response


@model
def complete(prompt: str) -> str:
    return prompt.upper()


@model
def whisper(audio: bytes) -> str:
    return "text"


@pytest.fixture
def client(client_of: ServeModels, tmp_path: Path) -> OpenAI:
    batches = openai.Batches(tmp_path / "store", max_file_bytes=3 * 1024 * 1024)
    return client_of(complete, openai.routes(openai.Completions(complete), batches))


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Client]:
    """A client without a socket."""
    routes = openai.routes(
        openai.Completions(complete),
        openai.Transcriptions(whisper),
        openai.Batches(tmp_path / "store", max_file_bytes=1000),
    )
    with Client(complete, whisper, routes) as opened:
        yield opened


def post_form(client: Client, data: dict[str, Any], files: dict[str, Any]) -> Response:
    request = httpx.Request("POST", "http://host/", data=data, files=files or {"other": ("a", b"1")})
    return client.post("/v1/files", request.read(), headers={"content-type": request.headers["content-type"]})


@pytest.mark.parametrize("size", [1, 1024 * 1024, 3 * 1024 * 1024 - 7])
def test_content_of_a_file_is_what_was_uploaded(client: OpenAI, size: int) -> None:
    content = bytes(index * 7 % 251 for index in range(size))
    file = client.files.create(file=("a b.jsonl", content), purpose="batch")
    assert (file.bytes, file.filename, file.purpose, file.status) == (size, "a b.jsonl", "batch", "processed")
    assert client.files.content(file.id).content == content
    assert client.files.retrieve(file.id) == file


def test_file_that_is_deleted_while_it_is_read_never_looks_complete(client_of: ServeModels, tmp_path: Path) -> None:
    client = client_of(complete, openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store")))
    # More than the buffers between the server and its client hold.
    file = client.files.create(file=("a", bytes(60 * 1024 * 1024)), purpose="batch")
    with httpx.stream("GET", f"{client.base_url}files/{file.id}/content") as response:
        pieces = response.iter_raw()
        next(pieces)
        client.files.delete(file.id)
        with pytest.raises(httpx.RemoteProtocolError):
            collections.deque(pieces, maxlen=0)


def test_lists_of_files_page_by_page(client: OpenAI) -> None:
    identities = [upload(client, prompts(name)) for name in "abcde"]
    assert [one.id for one in client.files.list()] == identities[::-1]
    assert [one.id for one in client.files.list(order="asc", limit=2)] == identities
    page = client.files.list(limit=2)
    assert ([one.id for one in page.data], page.has_more) == (identities[:-3:-1], True)
    page = client.files.list(limit=2, after=identities[1], order="asc")
    assert ([one.id for one in page.data], page.has_more) == (identities[2:4], True)
    assert [one.id for one in client.files.list(purpose="batch_output")] == []
    assert client.files.delete(identities[0]).deleted
    with pytest.raises(NotFoundError):
        client.files.retrieve(identities[0])
    assert [one.id for one in client.files.list(order="asc")] == identities[1:]


def test_lists_of_batches_page_by_page(client: OpenAI) -> None:
    identities = [run(client, prompts(name))[0].id for name in "abc"]
    assert [one.id for one in client.batches.list(limit=2)] == identities[::-1]
    page = client.batches.list(limit=1, after=identities[2])
    assert ([one.id for one in page.data], page.has_more) == ([identities[1]], True)
    assert not client.batches.list(after=identities[0]).data


def test_ended_batch_cannot_be_cancelled(client: OpenAI) -> None:
    batch, _ = run(client, prompts("a"))
    with pytest.raises(ConflictError, match="has the status 'completed', and cannot be cancelled"):
        client.batches.cancel(batch.id)


def test_files_have_the_requested_expiry(client: OpenAI) -> None:
    file = client.files.create(
        file=("a", json.dumps(prompts("a")[0]).encode()),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.expires_at == file.created_at + 3600
    created = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/completions",
        completion_window="24h",
        output_expires_after={"anchor": "created_at", "seconds": 7200},
    )
    assert created.expires_at == created.created_at + 24 * 3600
    batch = await_status(client, created.id, "completed")
    output = client.files.retrieve(batch.output_file_id)
    assert output.expires_at == output.created_at + 7200


def test_prefix_applies_to_files_and_urls(client_of: ServeModels, tmp_path: Path) -> None:
    routes = openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store"), prefix="/api")
    client = client_of(complete, routes, base="/api")
    lines = [{**one, "url": "/api/completions"} for one in prompts("a")]
    batch, _ = run(client, lines, "/api/completions")
    assert batch.request_counts.completed == 1


FILE = {"file": ("a.jsonl", b"{}")}


@pytest.mark.parametrize(
    ("data", "files", "param", "text"),
    [
        ({}, FILE, "purpose", "'purpose' is missing"),
        ({"purpose": "fine-tune"}, FILE, "purpose", "'purpose' must be 'batch', not 'fine-tune'"),
        ({"purpose": "batch"}, {}, "file", "'file' is missing: a file"),
        ({"purpose": "batch", "file": "x"}, {}, "file", "'file' must be a file"),
        ({"purpose": "batch"}, {"file": ("a", b"")}, "file", "'file' is empty"),
        ({"purpose": "batch"}, {"file": ("a", b"x" * 1001)}, "file", "has 1001 bytes, expected 1000 at most"),
        (
            {"purpose": "batch", "expires_after[anchor]": "now", "expires_after[seconds]": "3600"},
            FILE,
            "expires_after.anchor",
            "must be 'created_at'",
        ),
        (
            {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"},
            FILE,
            "expires_after.seconds",
            "must be an integer from 3600 to 2592000",
        ),
        ({"purpose": "batch", "expires_after": "1"}, FILE, "expires_after", "'expires_after' must be an object"),
    ],
)
def test_refused_uploads_name_the_field(
    raw: Client, data: dict[str, Any], files: dict[str, Any], param: str, text: str
) -> None:
    response = post_form(raw, data, files)
    error = response.json()["error"]
    assert response.status == (413 if "at most" in text else 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert text in error["message"]
    assert raw.get("/v1/files").json()["data"] == []


def test_full_store_refuses_files_and_batches(client_of: ServeModels, tmp_path: Path) -> None:
    routes = openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store", max_bytes=200_000))
    client = client_of(complete, routes)
    uploaded: list[str] = []

    def upload_one() -> None:
        uploaded.append(client.files.create(file=("a", b"x" * 1000), purpose="batch").id)

    def fill() -> None:
        while len(uploaded) < 200:
            upload_one()

    with pytest.raises(APIStatusError, match="of 200000 bytes, so 1000 more do not fit: delete files") as raised:
        fill()
    assert (raised.value.status_code, raised.value.code, raised.value.param) == (413, "storage_full", "file")
    with pytest.raises(APIStatusError, match="do not fit") as raised:
        client.batches.create(input_file_id=uploaded[0], endpoint="/v1/completions", completion_window="24h")
    assert (raised.value.status_code, raised.value.param) == (413, "input_file_id")
    # A deleted file makes room again.
    for one in [*client.files.list()]:
        client.files.delete(one.id)
    upload_one()


@pytest.mark.parametrize(
    ("changes", "param", "text"),
    [
        ({"input_file_id": None}, "input_file_id", "'input_file_id' is missing"),
        ({"input_file_id": "file-0"}, "input_file_id", "'file-0' is not the id of a file with the purpose 'batch'"),
        ({"input_file_id": 1}, "input_file_id", "'input_file_id' must be a string"),
        ({"endpoint": None}, "endpoint", "'endpoint' is missing"),
        ({"endpoint": "/v1/chat/completions"}, "endpoint", "'endpoint' must be one of /v1/completions, not"),
        ({"endpoint": "/v1/audio/transcriptions"}, "endpoint", "'endpoint' must be one of /v1/completions, not"),
        ({"completion_window": None}, "completion_window", "'completion_window' is missing"),
        ({"completion_window": "24"}, "completion_window", "must be a time such as '24h', from 1s to 30d, not '24'"),
        ({"completion_window": "0s"}, "completion_window", "must be a time such as '24h'"),
        ({"completion_window": "31d"}, "completion_window", "must be a time such as '24h'"),
        ({"completion_window": 24}, "completion_window", "'completion_window' must be a string"),
        ({"metadata": "x"}, "metadata", "'metadata' must be an object"),
        ({"metadata": {"a": 1}}, "metadata", "must have names of 64 characters and texts of 512 at most"),
        ({"metadata": {"a" * 65: ""}}, "metadata", "must have names of 64 characters"),
        ({"metadata": {"a": "x" * 513}}, "metadata", "texts of 512 at most"),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata", "has 17 members, expected 16 at most"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": True}},
            "output_expires_after.seconds",
            "must be",
        ),
    ],
)
def test_refused_batches_name_the_member(raw: Client, changes: dict[str, Any], param: str, text: str) -> None:
    file = post_form(raw, {"purpose": "batch"}, FILE).json()["id"]
    asked = {"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h", **changes}
    response = raw.post("/v1/batches", json.dumps(asked))
    error = response.json()["error"]
    assert (response.status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert text in error["message"]
    assert raw.get("/v1/batches").json()["data"] == []


@pytest.mark.parametrize(
    ("path", "param", "text"),
    [
        ("files?limit=0", "limit", "'limit' must be an integer from 1 to 10000, not '0'"),
        ("files?limit=x", "limit", "must be an integer"),
        ("files?limit=99999999999", "limit", "must be an integer"),
        ("files?order=up", "order", "'order' must be 'asc' or 'desc', not 'up'"),
        ("files?after=file-0", "after", "'after' must be the id of an item of the list, not 'file-0'"),
        ("batches?limit=101", "limit", "'limit' must be an integer from 1 to 100, not '101'"),
        ("batches?after=batch_0", "after", "'after' must be the id of an item"),
    ],
)
def test_refused_lists_name_the_parameter(raw: Client, path: str, param: str, text: str) -> None:
    response = raw.get(f"/v1/{path}")
    error = response.json()["error"]
    assert (response.status, error["param"]) == (400, param)
    assert text in error["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "files/file-0"),
        ("GET", "files/file-0/content"),
        ("DELETE", "files/file-0"),
        ("GET", "batches/batch_0"),
        ("POST", "batches/batch_0/cancel"),
    ],
)
def test_unknown_ids(client: OpenAI, method: str, path: str) -> None:
    response = httpx.request(method, f"{client.base_url}{path}")
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "not_found", "id")
    assert error["message"].startswith(("No such file: 'file-0'", "No such batch: 'batch_0'"))


def test_cancelled_twice(client: OpenAI) -> None:
    identity = begin(client, prompts(*map(str, range(200))))
    try:
        client.batches.cancel(identity)
    except APIStatusError as error:
        assert error.status_code == 409  # noqa: PT017 - it may have ended before
    await_status(client, identity, "cancelled", "completed")
    with pytest.raises(ConflictError):
        client.batches.cancel(identity)
