"""Loads report their progress, and end at a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving_process import Serving
from waiting import until

PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")
MODEL = """
import pathlib, time
from penstock import Processes, model

def wait():
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)

@model(OPTIONS)
class Slow:
    def __init__(self):
        BUILD
    def __call__(self, x: int) -> int:
        return x
"""
IN_IMPORT = MODEL.replace("OPTIONS", "").replace("BUILD", "pass") + "\nwait()\n"
IN_BUILD = MODEL.replace("OPTIONS", "").replace("BUILD", "wait()")
IN_PROCESS = MODEL.replace("OPTIONS", "instances=Processes(1)").replace("BUILD", "wait()")


@pytest.mark.parametrize("command", ["serve", "dev"])
@pytest.mark.parametrize(
    ("code", "what"),
    [(IN_IMPORT, "app.py"), (IN_BUILD, "Slow"), (IN_PROCESS, "Slow")],
    ids=["import", "constructor", "process"],
)
def test_long_load_is_reported_with_its_seconds(tmp_path: Path, command: str, code: str, what: str) -> None:
    (tmp_path / "app.py").write_text(code)
    with Serving("app.py", *PORTS, folder=tmp_path, command=command, up=False) as server:
        server.await_stderr(f"penstock: loading {what} ... 2 s\n")
        server.await_stderr(f"penstock: loading {what} ... 4 s\n")
        (tmp_path / "go").touch()
        until(lambda: "\ntry " in server.out, "the server to start")


def test_long_reload_is_reported(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(IN_BUILD)
    (tmp_path / "go").touch()
    with Serving("app.py", *PORTS, folder=tmp_path) as server:
        (tmp_path / "go").unlink()
        server.signal(signal.SIGHUP)
        server.await_stderr("penstock: loading app.py ... 2 s\n")
        (tmp_path / "go").touch()
        server.await_stderr("reloaded in ")


@pytest.mark.parametrize(("code", "signals"), [(IN_IMPORT, 1), (IN_BUILD, 2), (IN_PROCESS, 2)])
def test_signal_ends_a_load(tmp_path: Path, code: str, signals: int) -> None:
    (tmp_path / "app.py").write_text(code)
    with Serving("app.py", *PORTS, folder=tmp_path, up=False) as server:
        until((tmp_path / "begun").exists, "the load")
        server.signal(signal.SIGINT)
        if signals == 2:
            server.await_stderr("penstock: loading is stopped; signal again to end at once")
            server.signal(signal.SIGINT)
        assert server.exit_status() == 0
        assert "Traceback" not in server.err


STUBBORN = """
import ctypes, pathlib
pathlib.Path("begun").touch()
while True:
    try:
        # Compiled code that holds the GIL, and does not return.
        ctypes.PyDLL(None).sleep(60)
    except BaseException:
        pass
"""


def test_second_signal_ends_a_load_in_compiled_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUBBORN)
    with Serving("app.py", *PORTS, folder=tmp_path, up=False) as server:
        until((tmp_path / "begun").exists, "the load")
        for _ in range(2):
            server.signal(signal.SIGINT)
            # The kernel merges equal signals that come together.
            time.sleep(0.2)
        assert server.exit_status() == 0


def test_attach_without_a_server_says_that_it_waits(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def same(x: int) -> int: return x\n")
    command = [sys.executable, "-m", "penstock", "attach", f"unix:{tmp_path}/none", "app.py:same", "--timeout", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    waiting, failed = done.stderr.splitlines()
    assert waiting.endswith("no server is there that was started with attach; waits for one for up to 1 s")
    assert (done.returncode, failed.startswith("penstock: error: attach: unix:")) == (1, True)
