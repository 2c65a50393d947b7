"""`penstock.logs`: log records carry the model and request that they belong to."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import infer
from models import in_processes
from penstock import Batching, Context, Model, Server, Tensor, logs, model
from penstock.testing import Client
from serving_process import Serving
from waiting import Gate, at_once, until

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
X = {"x": np.array([5], np.float32)}
LIBRARY = logging.getLogger("of.library")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The JSON lines that `logs.setup` writes."""
    stream, before = io.StringIO(), (sys.stdout, logging.getLogger().level, list(logging.getLogger().handlers))
    logs.setup(as_json=True, stream=stream)
    yield stream
    sys.stdout, level, handlers = before
    logging.getLogger().setLevel(level)
    logging.getLogger().handlers[:] = handlers


def read(lines: io.StringIO, logger: str = "of.library") -> list[dict[str, Any]]:
    records = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in records if line["logger"] == logger]


def origin(line: dict[str, Any]) -> tuple[Any, ...]:
    return line.get("model"), line.get("version"), line.get("request_id"), line["message"]


@model(name="plain", version="3", **FLOATS)
def plain(x: Any) -> Any:
    LIBRARY.info("computing %d", x[0])
    print("printed", int(x[0]))
    return x


@model(name="awaited", version="3", **FLOATS)
async def awaited(x: Any) -> Any:
    await asyncio.sleep(0)
    await asyncio.create_task(nested(x))
    print("printed", int(x[0]))
    return x


async def nested(x: Any) -> None:
    await asyncio.sleep(0)
    LIBRARY.info("computing %d", x[0])


@model(name="yields", version="3", **FLOATS)
def yields(x: Any) -> Iterator[Any]:
    LIBRARY.info("computing %d", x[0])
    yield x
    print("printed", int(x[0]))
    yield x


@model(name="yields_async", version="3", **FLOATS)
async def yields_async(x: Any) -> Any:
    yield x
    LIBRARY.info("computing %d", x[0])
    print("printed", int(x[0]))


@pytest.mark.parametrize("served", [plain, awaited, yields, yields_async], ids=lambda expected: expected.name)
def test_logs_and_prints_carry_the_request_context(lines: io.StringIO, served: Model[..., Any]) -> None:
    # Not in the fixture: pytest captures stdout of a test only after its fixtures.
    logs.setup(as_json=True, prints=True, stream=lines)
    with Client(served) as client:
        for request_id in ("r-1", "r-2"):
            if served.streams:
                body = json.dumps({"id": request_id, "x": [5]})
                assert client.post(f"/v2/models/{served.name}/generate_stream", body).status == 200
            else:
                client.infer(served.name, X, request_id=request_id)
    LIBRARY.info("outside")
    contexts = [(served.name, "3", request_id) for request_id in ("r-1", "r-2")]
    assert [origin(line) for line in read(lines)] == [
        *((*context, "computing 5") for context in contexts),
        (None, None, None, "outside"),
    ]
    assert [origin(line) for line in read(lines, f"penstock.{served.name}.print")] == [
        (*context, "printed 5") for context in contexts
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_unprintable_characters_are_escaped_and_ids_truncated(lines: io.StringIO, as_json: bool) -> None:
    logs.setup(as_json=as_json, stream=lines)
    unprintable = "a\u202eb\u2066c\u2028d\x1be\nf"

    @model(name="m", **FLOATS)
    def handler(x: Any, ctx: Context) -> Any:
        assert ctx.request_id in (unprintable, "x" * 100_000)
        ctx.log.info("of %s", ctx.request_id[:10])
        LIBRARY.info("two\nlines\tand \x1b[2J")
        return x

    with Client(handler) as client:
        for request_id in (unprintable, "x" * 100_000):
            client.infer("m", X, request_id=request_id)
    text = lines.getvalue()
    assert not set(text) & set(unprintable[1:9:2])
    escaped = r"a\u{202e}b\u{2066}c\u{2028}d\u{1b}e\u{a}f"
    if as_json:
        assert [line["request_id"] for line in read(lines)] == [escaped, "x" * 256 + "…"]
        assert [line["message"] for line in read(lines)] == ["two\nlines\tand \\u{1b}[2J"] * 2
        assert read(lines, "penstock.m")[0]["message"] == "of a\\u{202e}b\\u{2066}c\\u{2028}d\\u{1b}e\n"
    else:
        assert text.count(f"[m/1 {escaped}] ") == 2
        assert text.count(f"[m/1 {'x' * 256}…] two\nlines\tand \\u{{1b}}[2J\n") == 1


def test_concurrent_async_calls_log_their_own_request_ids(lines: io.StringIO) -> None:
    barrier: list[asyncio.Event] = []

    @model(name="m", max_concurrency=8, **FLOATS)
    async def concurrent(x: Any, ctx: Context) -> Any:
        event = asyncio.Event()
        barrier.append(event)
        if len(barrier) == 8:
            for event in barrier:
                event.set()
        await event.wait()
        LIBRARY.info("%s", ctx.request_id)
        return x

    with Client(concurrent) as client:
        for future in at_once([lambda index=index: client.infer("m", X, request_id=f"r{index}") for index in range(8)]):
            future.result()
    records = read(lines)
    assert sorted(line["message"] for line in records) == [f"r{index}" for index in range(8)]
    assert all(line["request_id"] == line["message"] for line in records)


def test_batch_log_lists_all_request_ids(lines: io.StringIO) -> None:
    gate = Gate()

    @model(name="m", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], batching=Batching())
    def rows(x: Any) -> Any:
        if len(x) == 1:
            gate.enter()
        else:
            LIBRARY.info("computing")
        return x

    row = {"x": np.ones((1, 1), np.float32)}
    with Client(rows) as client:
        futures = at_once([lambda: client.infer("m", row, request_id="first")])
        gate.await_entered()
        futures += at_once([lambda: client.infer("m", row, request_id="a"), lambda: client.infer("m", row)])

        def both_are_queued() -> bool:
            return b'penstock_queue_depth{model="m",version="1"} 2' in client.get("/metrics").body

        until(both_are_queued)
        gate.open()
        for future in futures:
            future.result()
    (line,) = read(lines)
    assert sorted(line["request_id"].split(",")) == ["-", "a"]


def test_context_logger_needs_no_setup(caplog: pytest.LogCaptureFixture) -> None:
    @model(name="m", version="7", **FLOATS)
    def handler(x: Any, ctx: Context) -> Any:
        ctx.log.warning("of %s", "this", extra={"more": 1})
        assert ctx.log.logger is ctx.logger
        return x

    with Client(handler) as client:
        client.infer("m", X, request_id="r-1")
    (record,) = [record for record in caplog.records if record.name == "penstock.m"]
    assert (record.getMessage(), record.__dict__["more"]) == ("of this", 1)
    assert tuple(record.__dict__[name] for name in ("model", "version", "request_id")) == ("m", "7", "r-1")


def test_filter_preserves_existing_record_fields() -> None:
    record = logging.makeLogRecord({"request_id": "own"})
    assert logs.RequestFilter().filter(record)
    assert record.__dict__["request_id"] == "own"
    other = logging.makeLogRecord({"name": "a"})
    assert not logs.RequestFilter("b").filter(other)
    assert (other.__dict__["request_id"], other.__dict__["model"]) == ("-", "-")


def test_repeated_setup_replaces_the_previous_handler(lines: io.StringIO) -> None:
    other = io.StringIO()
    logs.setup(stream=other)
    LIBRARY.info("once")
    assert lines.getvalue() == ""
    assert other.getvalue().endswith("INFO of.library [-/- -] once\n")


def test_times_are_iso_8601(lines: io.StringIO) -> None:
    LIBRARY.info("a")
    time = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(time, read(lines)[0]["time"])
    logs.setup(stream=lines)
    LIBRARY.info("b")
    assert re.search(rf"^{time} INFO of.library ", lines.getvalue(), re.MULTILINE)


CONTEXT_LOG = """
from penstock import Context, Processes, model
SETUP
@model(OPTIONS)
def speaks(x: int, ctx: Context) -> int:
    ctx.log.info("heard %d", x)
    return x
"""


@pytest.mark.parametrize("options", ["", "instances=Processes(1)"], ids=["thread", "process"])
@pytest.mark.parametrize(("level", "shown"), [("info", True), ("warning", False)])
def test_serve_shows_the_context_log_with_the_request_id(tmp_path: Path, options: str, level: str, shown: bool) -> None:
    (tmp_path / "app.py").write_text(CONTEXT_LOG.replace("OPTIONS", options).replace("SETUP", ""))
    arguments = ["app.py", "--http", "127.0.0.1:0", "--grpc", "off"]
    if level != "info":
        arguments += ["--log-level", level]
    with Serving(*arguments, folder=tmp_path) as server:
        assert infer(server.http, "speaks", {"x": np.array(5)}, id="r-1").status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    line = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info penstock.speaks \[r-1\] heard 5\n"
    assert bool(re.search(line, server.err)) is shown


@pytest.mark.parametrize(
    "setup",
    ["import logging; logging.basicConfig(level=logging.WARNING)", "from penstock import logs; logs.setup(level=30)"],
)
def test_logging_of_the_program_takes_precedence(tmp_path: Path, setup: str) -> None:
    (tmp_path / "app.py").write_text(CONTEXT_LOG.replace("OPTIONS", "").replace("SETUP", setup))
    with Serving("app.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=tmp_path) as server:
        assert infer(server.http, "speaks", {"x": np.array(5)}, id="r-1").status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert "heard" not in server.err


def test_exception_is_part_of_the_json_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        LIBRARY.exception("failed")
    (line,) = read(lines)
    assert line["level"] == "error"
    assert line["error"].endswith("ValueError: broken")


def test_process_output_is_prefixed_with_model_and_process(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(in_processes.talks, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "talks", X).status == 200
    out, err = capfd.readouterr()
    prefix = "penstock: model 'talks' process "
    printed, as_json = [line for line in out.splitlines() if line]
    assert printed.startswith(prefix)
    assert printed.endswith(": printed 5")
    assert as_json == '{"as": "json"}'
    process = printed.removeprefix(prefix).split(":")[0]
    assert process.isdigit()
    assert f"{prefix}{process}: computing 5\n" in err
    assert f"{prefix}{process}: without its end\n" in err
