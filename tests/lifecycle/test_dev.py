"""`penstock dev`: reload, a line per request, tracebacks for local clients, and a wait on broken code."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from http_by_hand import get, post
from serving_process import Serving
from waiting import until

APP = """
from penstock import model

@model
def times(x: int) -> int:
    return x * 2

@model
def fails(x: int) -> int:
    weights = {}
    return weights["missing"]
"""
PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


@contextmanager
def developed(app: Path, *arguments: str, up: bool = True, **options: Any) -> Iterator[Serving]:
    with Serving("app.py", *(arguments or PORTS), folder=app.parent, command="dev", up=up, **options) as server:
        yield server


def times(server: Serving) -> Any:
    return post(server.http, "/models/times", b'{"x": 3}').json()


def test_each_request_is_one_line_with_method_path_status_time_and_rows(app: Path) -> None:
    with developed(app) as server:
        assert times(server) == 6
        assert get(server.http, "/nope?a=1").status == 404
        assert get(server.http, "/v2/health/ready").status == 200
        number, time = r"\d+\.\d ms", r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        for line in (
            rf"{time} POST /models/times 200 {number}, batch of 1 row",
            rf"{time} GET /nope\?a=1 404 {number}",
            rf"{time} GET /v2/health/ready 200 {number}",
        ):
            until(lambda line=line: re.search(rf"^{line}$", server.err, re.MULTILINE), line)  # type: ignore[misc]
        # Not a terminal.
        assert "\x1b" not in server.err


def test_traceback_reaches_the_terminal_and_local_clients(app: Path) -> None:
    with developed(app) as server:
        response = post(server.http, "/models/fails", b'{"x": 3}')
        head, *trace = response.error().splitlines()
        assert (response.status, head) == (500, "model 'fails' failed: KeyError: 'missing'")
        assert trace[0] == "Traceback (most recent call last):"
        assert trace[1].endswith('app.py", line 11, in fails')
        assert trace[-1] == "KeyError: 'missing'"
        server.await_stderr('app.py", line 11, in fails')
        server.await_stderr("500: model 'fails' failed: KeyError: 'missing'")


def test_other_machines_get_no_traceback(app: Path) -> None:
    with developed(app, "--http", "0.0.0.0:0", "--grpc", "off") as server:
        assert post(server.http, "/models/fails", b'{"x": 3}').error() == "model 'fails' failed: KeyError"
    with Serving("app.py", *PORTS, folder=app.parent) as server:
        assert post(server.http, "/models/fails", b'{"x": 3}').error() == "model 'fails' failed: KeyError"


def test_changes_are_served_and_broken_code_changes_nothing(app: Path) -> None:
    with developed(app) as server:
        server.await_stderr("penstock: watching 1 file, reloads when one changes")
        server.await_stderr("penstock: loaded in ")
        app.write_text(APP.replace("x * 2", "x * 5"))
        server.await_stderr("penstock: app.py changed, reloading")
        until(lambda: times(server) == 15, "the new code")
        app.write_text("def broken(:\n")
        server.await_stderr("reload failed, what serves goes on: ")
        assert "SyntaxError" in server.err
        assert times(server) == 15
        app.write_text(APP.replace("x * 2", "x * 70"))
        until(lambda: times(server) == 210, "the mended code")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("def broken(:\n", "SyntaxError: "),
        ("import no_such_module\n", "No module named 'no_such_module'"),
        ("x = 1\n", "penstock: error: app.py has no @model"),
        (APP + "\n@model\ndef what(x): return x\n", "model 'what'"),
        (
            APP + "\n@model\nclass Late:\n    def __init__(self): self.w = {}['w']\n"
            "    def __call__(self, x: int) -> int: return x\n",
            "model 'Late' version '1' could not be loaded: KeyError: 'w'",
        ),
    ],
    ids=["syntax", "import", "no model", "signature", "constructor"],
)
def test_broken_code_at_the_start_is_waited_for(app: Path, broken: str, message: str) -> None:
    app.write_text(broken)
    with developed(app, up=False) as server:
        server.await_stderr("penstock: waiting for a change of the files; Ctrl-C ends")
        assert message in server.err
        assert server.process.poll() is None
        app.write_text("import own\n" + APP.replace("x * 2", "x * own.FACTOR"))
        # A second failure: the module is missing. It appears without a change of the file.
        server.await_stderr("No module named 'own'")
        until(lambda: server.err.count("waiting for a change") == 2, "the second wait")
        (app.parent / "own.py").write_text("FACTOR = 4\n")
        server.await_stderr("penstock: own.py changed, loading again")
        until(lambda: "\ntry " in server.out, "the server to start")
        assert times(server) == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_wait(app: Path, number: signal.Signals) -> None:
    app.write_text("def broken(:\n")
    with developed(app, up=False) as server:
        server.await_stderr("penstock: waiting for a change")
        server.signal(number)
        assert server.exit_status() == 0
        assert "penstock/_" not in server.err


def test_wrong_setting_or_address_is_not_waited_for(app: Path) -> None:
    with developed(app, "--http", "192.0.2.1:0", "--grpc", "off", up=False) as server:
        assert server.exit_status() == 1
        assert "cannot listen on 192.0.2.1:0" in server.err


def test_open_shows_the_docs_page_in_the_browser(app: Path) -> None:
    page = app.parent / "page"
    browser = app.parent / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {page}.new && mv {page}.new {page}\n')
    browser.chmod(0o755)
    environment = {"BROWSER": f"{browser} %s"}
    with developed(app, *PORTS, "--open", environment=environment) as server:
        until(page.exists, "the browser")
        assert page.read_text() == f"{server.http}/docs"
    with developed(app, *PORTS, "--open", "--no-docs", environment=environment) as server:
        server.await_stderr("penstock: --open: there is no page to open, because docs or http is off")
