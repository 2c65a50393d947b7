"""`openai.Batches`: lines of a batch, computed at the lowest priority, called with the official OpenAI client."""

from __future__ import annotations

import fcntl
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from batch_helpers import (
    Recorded,
    await_status,
    begin,
    by_name,
    client_of_server,
    line,
    prompts,
    results,
    run,
    text_of,
    upload,
)
from openai import NotFoundError
from openai_helpers import ServeModels

from http_by_hand import metric_at
from penstock import (
    Batching,
    Context,
    InvalidInput,
    Overloaded,
    Queueing,
    Server,
    SignatureError,
    Tensor,
    model,
    openai,
)
from waiting import Gate, at_once, until


@model
def complete(prompt: str, ctx: Context) -> str:
    if prompt == "refused":
        raise InvalidInput("this prompt is not allowed")
    if prompt == "broken":
        raise ValueError("secret")
    return prompt.upper() + "!" * int(ctx.parameters.get("max_tokens", 0))


@model
def embed(text: str) -> Annotated[np.ndarray, Tensor(datatype=np.float32, shape=[-1])]:
    return np.array([len(text), 1.0], np.float32)


@model(batching=Batching(max_size=4))
def rank(query: list[str], document: list[str]) -> list[float]:
    return [float(text.count(word)) for word, text in zip(query, document, strict=True)]


def test_lines_of_each_endpoint(client_of: ServeModels, tmp_path: Path) -> None:
    routes = openai.routes(
        openai.Completions(complete),
        openai.Chat(complete, template=lambda messages: messages[-1]["content"]),
        openai.Embeddings(embed),
        openai.Rerank(rank),
        openai.Batches(tmp_path / "store"),
    )
    client = client_of(complete, embed, rank, routes)
    _, found = run(client, [line("a", {"model": "complete", "prompt": "ä", "max_tokens": 2})])
    assert text_of(found["a"]) == "Ä!!"
    assert (found["a"]["error"], found["a"]["response"]["status_code"]) == (None, 200)
    messages = [{"role": "user", "content": "b"}]
    chat = [line("b", {"model": "complete", "messages": messages}, "/v1/chat/completions")]
    _, found = run(client, chat, "/v1/chat/completions")
    assert found["b"]["response"]["body"]["choices"][0]["message"]["content"] == "B"
    _, found = run(client, [line("c", {"model": "embed", "input": ["x", "yy"]}, "/v1/embeddings")], "/v1/embeddings")
    assert [one["embedding"] for one in found["c"]["response"]["body"]["data"]] == [[1.0, 1.0], [2.0, 1.0]]
    asked = {"model": "rank", "query": "a", "documents": ["b", "aa"]}
    for path in ("/v1/rerank", "/rerank"):
        _, found = run(client, [line("d", asked, path)], path)
        assert [one["index"] for one in found["d"]["response"]["body"]["results"]] == [1, 0]


def test_files_and_counts_of_good_and_bad_lines(client_of: ServeModels, tmp_path: Path) -> None:
    client = client_of(complete, openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store")))
    lines = [
        *prompts("one", "refused", "two", "broken"),
        line("unknown", {"model": "other", "prompt": "x"}),
        line("missing", {"model": "complete"}),
        line("streamed", {"model": "complete", "prompt": "x", "stream": True}),
        line("surrogate", {"model": "complete", "prompt": "\ud800"}),
        *prompts("three"),
    ]
    batch, found = run(client, lines)
    assert batch.status == "completed"
    assert batch.request_counts.to_dict() == {"total": 9, "completed": 3, "failed": 6}
    assert [one["custom_id"] for one in results(client, batch.output_file_id)] == ["one", "two", "three"]
    assert [text_of(found[name]) for name in ("one", "two", "three")] == ["ONE", "TWO", "THREE"]
    errors = {one["custom_id"]: one["response"] for one in results(client, batch.error_file_id)}
    assert {name: one["status_code"] for name, one in errors.items()} == {
        "refused": 400,
        "broken": 500,
        "unknown": 404,
        "missing": 400,
        "streamed": 400,
        "surrogate": 400,
    }
    assert errors["refused"]["body"]["error"]["message"] == "this prompt is not allowed"
    assert errors["unknown"]["body"]["error"]["code"] == "model_not_found"
    assert errors["missing"]["body"]["error"]["param"] == "prompt"
    assert errors["streamed"]["body"]["error"]["param"] == "stream"
    assert "secret" not in json.dumps(errors)
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
    file = client.files.retrieve(batch.output_file_id)
    assert (file.purpose, file.filename) == ("batch_output", f"{batch.id}_output.jsonl")


def test_batch_without_failures_has_no_error_file(client_of: ServeModels, tmp_path: Path) -> None:
    client = client_of(complete, openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store")))
    batch, _ = run(client, ["", *prompts("a"), " "])
    assert (batch.error_file_id, batch.request_counts.total) == (None, 1)
    batch, _ = run(client, prompts("refused"))
    assert (batch.status, batch.output_file_id, batch.request_counts.failed) == ("completed", None, 1)


GOOD = prompts("a")[0]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([GOOD, "{", "[1]"], [("invalid_json_line", None, 2), ("invalid_json_line", None, 3)]),
        ([GOOD, "", {**GOOD, "method": "GET"}], [("duplicate_custom_id", "custom_id", 3)]),
        ([{**GOOD, "method": "GET"}], [("invalid_method", "method", 1)]),
        ([{**GOOD, "url": "/v1/embeddings"}], [("mismatched_url", "url", 1)]),
        ([{**GOOD, "body": [1]}], [("invalid_body", "body", 1)]),
        ([{**GOOD, "custom_id": 1}], [("invalid_custom_id", "custom_id", 1)]),
        ([{**GOOD, "custom_id": "x" * 513}], [("invalid_custom_id", "custom_id", 1)]),
        ([{**GOOD, "custom_id": "\ud800"}], [("invalid_custom_id", "custom_id", 1)]),
        ([" ", ""], [("empty_file", None, None)]),
        (prompts(*"abcdef"), [("too_many_lines", None, 6)]),
        (["{"] * 150, [("invalid_json_line", None, number) for number in range(1, 101)]),
    ],
)
def test_wrong_file_fails_the_batch_with_its_lines(
    client_of: ServeModels, tmp_path: Path, lines: list[Any], expected: list[Any]
) -> None:
    batches = openai.Batches(tmp_path / "store", max_lines=5)
    client = client_of(complete, openai.routes(openai.Completions(complete), batches))
    batch, found = run(client, lines)
    assert (batch.status, found) == ("failed", {})
    assert [(one.code, one.param, one.line) for one in batch.errors.data] == expected
    assert batch.failed_at >= batch.created_at


def test_input_that_is_deleted_before_it_is_read(client_of: ServeModels, tmp_path: Path) -> None:
    with (tmp_path / "store.lock").open("w") as held:
        # As another process that computes the batches of this store.
        fcntl.flock(held, fcntl.LOCK_EX)
        client = client_of(complete, openai.routes(openai.Completions(complete), openai.Batches(tmp_path / "store")))
        file = upload(client, prompts("a"))
        created = client.batches.create(
            input_file_id=file, endpoint="/v1/completions", completion_window="24h", metadata={"a": "b"}
        )
        client.files.delete(file)
        assert client.batches.retrieve(created.id).status == "validating"
    batch = await_status(client, created.id, "failed")
    assert [(one.code, one.param) for one in batch.errors.data] == [("file_not_found", "input_file_id")]
    assert batch.metadata == {"a": "b"}


def test_cancelled_batch_names_each_line_once(client_of: ServeModels, tmp_path: Path) -> None:
    recorded = Recorded()
    routes = openai.routes(openai.Completions(recorded.model), openai.Batches(tmp_path / "store"))
    client = client_of(recorded.model, routes)
    identity = begin(client, prompts("a", "b", "c"))
    recorded.gate.await_entered()
    assert client.batches.cancel(identity).status == "cancelling"
    batch = await_status(client, identity, "cancelled")
    recorded.gate.open()
    found = by_name(results(client, batch.error_file_id))
    assert {name: one["error"]["code"] for name, one in found.items()} == dict.fromkeys("abc", "batch_cancelled")
    assert batch.output_file_id is None
    assert batch.cancelling_at <= batch.cancelled_at
    # A waiting line of a cancelled batch is never computed; the model is free for the next batch.
    _, found = run(client, prompts("d"))
    assert text_of(found["d"]) == "D"
    assert recorded.seen == ["a", "d"]


def test_expired_batch_has_the_results_so_far(client_of: ServeModels, tmp_path: Path) -> None:
    gate = Gate()

    @model(name="complete")
    def held(prompt: str) -> str:
        if prompt == "second":
            gate.enter()
        return prompt.upper()

    client = client_of(held, openai.routes(openai.Completions(held), openai.Batches(tmp_path / "store")))
    identity = begin(client, prompts("first", "second", "third"))
    gate.await_entered()
    until(lambda: client.batches.retrieve(identity).request_counts.completed == 1)  # type: ignore[union-attr]
    with sqlite3.connect(tmp_path / "store") as connection:
        connection.execute("UPDATE batches SET expires_at = 1")
    batch = await_status(client, identity, "expired")
    gate.open()
    assert [text_of(one) for one in results(client, batch.output_file_id)] == ["FIRST"]
    found = by_name(results(client, batch.error_file_id))
    assert {name: one["error"]["code"] for name, one in found.items()} == dict.fromkeys(
        ("second", "third"), "batch_expired"
    )
    assert batch.request_counts.to_dict() == {"total": 3, "completed": 1, "failed": 0}
    assert batch.expired_at >= batch.in_progress_at


def test_batch_expires_by_its_window(client_of: ServeModels, tmp_path: Path) -> None:
    recorded = Recorded()
    routes = openai.routes(openai.Completions(recorded.model), openai.Batches(tmp_path / "store"))
    client = client_of(recorded.model, routes)
    batch = await_status(client, begin(client, prompts("a"), window="1s"), "expired")
    recorded.gate.open()
    assert batch.expired_at >= batch.expires_at == batch.created_at + 1
    assert [one["error"]["code"] for one in results(client, batch.error_file_id)] == ["batch_expired"]


def test_lines_are_computed_after_requests_that_arrive_later(client_of: ServeModels, tmp_path: Path) -> None:
    recorded = Recorded(queueing=Queueing(priorities=2, default_priority=1))
    routes = openai.routes(openai.Completions(recorded.model), openai.Batches(tmp_path / "store"))
    client = client_of(recorded.model, routes)
    url = str(client.base_url).removesuffix("/v1/")
    identity = begin(client, prompts("a", "b", "c"))
    recorded.gate.await_entered()
    until(lambda: metric_at(url, "penstock_queue_depth", model="complete") == 1)
    calls = at_once([lambda: client.completions.create(model="complete", prompt="urgent")])
    until(lambda: metric_at(url, "penstock_queue_depth", model="complete") == 2)
    recorded.gate.open()
    assert calls[0].result().choices[0].text == "URGENT"
    await_status(client, identity, "completed")
    assert recorded.seen == ["a", "urgent", "b", "c"]


@pytest.mark.parametrize("options", [{}, {"queueing": Queueing(priorities=3)}], ids=["no levels", "lowest by default"])
def test_lines_wait_until_a_model_without_a_lower_level_is_idle(
    client_of: ServeModels, tmp_path: Path, options: dict[str, Any]
) -> None:
    recorded = Recorded(**options)
    routes = openai.routes(openai.Completions(recorded.model), openai.Batches(tmp_path / "store"))
    client = client_of(recorded.model, routes)
    url = str(client.base_url).removesuffix("/v1/")
    calls = at_once([lambda: client.completions.create(model="complete", prompt="first")])
    recorded.gate.await_entered()
    identity = begin(client, prompts("a", "b"))
    await_status(client, identity, "in_progress")
    calls += at_once([lambda: client.completions.create(model="complete", prompt="later")])
    until(lambda: metric_at(url, "penstock_queue_depth", model="complete") == 1)
    recorded.gate.open()
    await_status(client, identity, "completed")
    assert [call.result().choices[0].text for call in calls] == ["FIRST", "LATER"]
    assert recorded.seen == ["first", "later", "a", "b"]


def test_lines_share_batches_of_the_model(client_of: ServeModels, tmp_path: Path) -> None:
    sizes: list[int] = []

    @model(name="embed", batching=Batching(max_size=8, max_delay=5.0))
    def sized(text: list[str]) -> list[float]:
        sizes.append(len(text))
        return [float(len(one)) for one in text]

    client = client_of(sized, openai.routes(openai.Embeddings(sized), openai.Batches(tmp_path / "store")))
    lines = [line(str(index), {"model": "embed", "input": "x" * index}, "/v1/embeddings") for index in range(16)]
    _, found = run(client, lines, "/v1/embeddings")
    assert sizes == [8, 8]
    assert found["5"]["response"]["body"]["data"][0]["embedding"] == [5.0]


def test_line_is_computed_again_while_its_model_has_no_room(client_of: ServeModels, tmp_path: Path) -> None:
    attempts: list[str] = []

    @model(name="complete")
    def busy(prompt: str) -> str:
        attempts.append(prompt)
        if attempts.count(prompt) < 3:
            raise Overloaded("no memory now")
        return prompt.upper()

    client = client_of(busy, openai.routes(openai.Completions(busy), openai.Batches(tmp_path / "store")))
    batch, found = run(client, prompts("a", "b"))
    assert [text_of(found[name]) for name in "ab"] == ["A", "B"]
    assert batch.request_counts.to_dict() == {"total": 2, "completed": 2, "failed": 0}
    assert sorted(attempts) == ["a"] * 3 + ["b"] * 3


def keys_file(path: Path, models: dict[str, list[str]]) -> Path:
    """A file of keys, which have the names of their clients."""
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in models}
    entries = [
        f'[[key]]\nname = "{name}"\nsha256 = "{hashes[name]}"\nmodels = {json.dumps(allowed)}\n'
        for name, allowed in models.items()
    ]
    path.write_text("\n".join(entries))
    path.chmod(0o600)
    return path


def test_key_sees_its_own_batches_and_uses_its_own_models(tmp_path: Path) -> None:
    keys = keys_file(tmp_path / "keys.toml", {"anna": ["*"], "bert": ["openai", "embed"]})
    routes = openai.routes(openai.Completions(complete), openai.Embeddings(embed), openai.Batches(tmp_path / "store"))
    with Server(complete, embed, routes, http="127.0.0.1:0", grpc=None, keys_file=str(keys)) as server:
        anna, bert = client_of_server(server, "anna"), client_of_server(server, "bert")
        batch, found = run(anna, prompts("a"))
        assert text_of(found["a"]) == "A"
        for call in (
            lambda: bert.files.retrieve(batch.input_file_id),
            lambda: bert.files.content(batch.output_file_id),
            lambda: bert.files.delete(batch.output_file_id),
            lambda: bert.batches.retrieve(batch.id),
            lambda: bert.batches.cancel(batch.id),
        ):
            with pytest.raises(NotFoundError) as raised:
                call()
            assert raised.value.param == "id"
        with pytest.raises(Exception, match="is not the id of a file"):
            bert.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/completions", completion_window="24h")
        assert [one.id for one in bert.files.list()] == [one.id for one in bert.batches.list()] == []
        # The key decides at the line, as for a request.
        _, found = run(bert, prompts("b"))
        assert found["b"]["response"]["body"]["error"]["code"] == "model_not_found"
        lines = [line("c", {"model": "embed", "input": "x"}, "/v1/embeddings")]
        _, found = run(bert, lines, "/v1/embeddings")
        assert found["c"]["response"]["status_code"] == 200
        assert [one.id for one in anna.batches.list()] == [batch.id]
        assert len([*bert.batches.list()]) == 2


@pytest.mark.parametrize("name", ["max_file_bytes", "max_lines", "max_bytes", "keep_days"])
def test_limits_must_be_counts(name: str) -> None:
    with pytest.raises(SignatureError, match=f"Batches: {name} must be an integer of 1 or more, not 0"):
        openai.Batches("store", **{name: 0})  # type: ignore[arg-type]


def test_batches_alone_have_nothing_to_serve() -> None:
    with pytest.raises(SignatureError, match="there is nothing to serve"):
        openai.routes(openai.Batches("store"))
    with pytest.raises(SignatureError, match="POST /v1/files is declared twice"):
        openai.routes(openai.Completions(complete), openai.Batches("a"), openai.Batches("b"))
