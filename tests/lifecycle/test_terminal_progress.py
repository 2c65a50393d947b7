"""Progress on a terminal: one line that is rewritten, with a bar where the end is known; elsewhere, lines."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock._runtime.console import echo
from penstock._runtime.status_line import StatusLine, bar
from penstock.compat.kserve.storage._objects import get
from penstock.compat.kserve.storage._patterns import Patterns
from penstock.integrations import _progress, downloads
from serving_process import Serving
from waiting import until

PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")
APP = """
import pathlib, time
from penstock import Warmup, model

def wait(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)

@model(instances=2, warmup=Warmup([{"x": 1}, {"x": 2}]))
class Slow:
    def __init__(self):
        wait("built")
    def __call__(self, x: int) -> int:
        if x == 2:
            wait("warm")
        return x
"""
STORAGE = """
import sys
from penstock.compat.kserve.storage import Storage
Storage.download(sys.argv[1], sys.argv[2])
"""
GREEN = "\x1b[32m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[tuple[Any, Callable[[], str]]]:
    """The file of a new terminal, and a function that returns what was written to it so far."""
    parent, child = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(parent, 65536):
                parts.append(part)
        except OSError:
            # The other side is closed.
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(child, "w") as file:
        yield file, lambda: b"".join(parts).decode()
    reader.join(20)
    os.close(parent)


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")


def test_load_and_warm_up_are_one_line_of_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with terminal() as (file, shown), Serving("app.py", *PORTS, folder=tmp_path, stderr=file, up=False) as server:
        until(lambda: "penstock: loading Slow ... " in shown(), "the line of the load")
        assert f"{GREEN}[{'.' * 24}]\x1b[0m penstock: loading Slow" in shown()
        (tmp_path / "built").touch()
        until(lambda: "penstock: warming up Slow, sample 2 ... " in shown(), "the line of the warm-up")
        assert f"{GREEN}[{'#' * 24}]\x1b[0m penstock: warming up" in shown()
        (tmp_path / "warm").touch()
        until(lambda: "\ntry " in server.out, "the server to start")
        # A thread writes the log.
        until(lambda: "the server is ready" in shown(), "the line of the log")
        text = shown()
    # One line, which is cleared in front of what is logged when the server is ready.
    [line] = [line for line in text.split("\n") if "penstock: " in line]
    assert re.search(r"warming up Slow, sample 2 \.\.\. \d+ s\r(\r\x1b\[K)+[^\x1b]* the server is ready", line), text


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_terminals_without_colours_get_none(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    stream = Terminal()
    line = StatusLine(stream)
    line.show("half", bar(1, 2))
    line.erase()
    half = f"\r\x1b[K[{'#' * 12}{'.' * 12}] half\r\r\x1b[K"
    assert stream.getvalue() == (half if name == "NO_COLOR" else "")


def test_other_output_erases_the_line_which_comes_back() -> None:
    stream = Terminal()
    line = StatusLine(stream)
    line.show("one")
    echo("said", stream)
    line.show("two")
    line.erase()
    line.erase()
    assert stream.getvalue() == "\r\x1b[Kone\r\r\x1b[Ksaid\n\r\x1b[Ktwo\r\r\x1b[K"


def test_inner_line_is_shown_until_it_ends() -> None:
    stream = Terminal()
    outer, inner = StatusLine(stream), StatusLine(stream)
    outer.show("outer")
    inner.show("inner")
    outer.show("hidden")
    inner.erase()
    outer.show("outer again")
    outer.end()
    assert stream.getvalue() == "\r\x1b[Kouter\r\r\x1b[Kinner\r\r\x1b[K\r\x1b[Kouter again\r\n"


def test_line_is_cut_at_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    line = StatusLine(stream)
    line.show("x" * 100, bar(3, 3))
    line.end()
    visible = re.sub(r"\x1b\[\d*[mK]|\r", "", stream.getvalue())
    assert visible == f"[{'#' * 24}] " + "x" * 12 + "\n"


def test_streams_without_a_terminal_get_nothing() -> None:
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("one", bar(1, 2))
    line.end()
    assert stream.getvalue() == ""


@pytest.fixture
def slow_file() -> Iterator[tuple[str, threading.Event]]:
    """The URL of a file of 3 MB, whose second half is sent after the event."""
    go = threading.Event()

    class File(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "3000000")
            self.end_headers()
            self.wfile.write(bytes(1_500_000))
            go.wait(30)
            self.wfile.write(bytes(1_500_000))

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), File)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/model.bin?token=secret", go
    go.set()
    server.shutdown()
    server.server_close()


def test_download_has_a_bar_on_a_terminal(tmp_path: Path, slow_file: tuple[str, threading.Event]) -> None:
    url, go = slow_file
    with terminal() as (file, shown):
        with subprocess.Popen([sys.executable, "-c", STORAGE, url, str(tmp_path)], stderr=file) as process:
            until(lambda: re.search(r"downloaded 1\.\d MB of 3\.0 MB, .*/s: http://.*model\.bin", shown()), "the bar")
            go.set()
            assert process.wait(30) == 0
        text = shown()
    assert re.search(rf"{re.escape(GREEN)}\[#{{8,12}}\.{{12,16}}\]", text), text
    assert "secret" not in text
    assert (tmp_path / "model.bin").stat().st_size == 3_000_000


def test_download_has_no_bar_in_a_log(tmp_path: Path, slow_file: tuple[str, threading.Event]) -> None:
    url, go = slow_file
    go.set()
    command = [sys.executable, "-c", STORAGE, url, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "downloaded" not in done.stderr.replace("Model downloaded", "")
    assert "\x1b" not in done.stderr


def test_sizes_of_an_object_store_give_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = pytest.importorskip("fsspec").filesystem("memory")
    for name, size in (("a.bin", 1000), ("b.bin", 500), ("notes.md", 7)):
        system.pipe(f"/{tmp_path.name}/{name}", bytes(size))
    monkeypatch.setattr(sys, "stderr", Terminal())
    (tmp_path / "models").mkdir()
    with downloads.shown("memory", tmp_path):
        get(system, f"/{tmp_path.name}", tmp_path / "models", Patterns.of(["*.bin"], None), 2)
        text, filled = _progress._shown[-1].status()
    assert text.startswith("penstock: downloaded 1.5 kB of 1.5 kB, ")
    assert filled == bar(1, 1)
    assert sorted(os.listdir(tmp_path / "models")) == ["a.bin", "b.bin"]
