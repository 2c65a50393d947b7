"""Signals while a callable holds the GIL: serving scripts react at once and exit at the deadline."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live import ROW, infer_row, triton, url
from test_triton_process import environment

from http_by_hand import get, infer, is_draining
from waiting import PATIENCE, at_once, until

SCRIPT = """
import ctypes, signal, sys
from live import bind, once_in_serve, triton, url
from penstock.compat.pytriton._server import remote
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.triton import RemoteTriton

@batch
def held(x):
    print("entered", flush=True)
    # Unlike CDLL, PyDLL does not release the GIL around a call.
    ctypes.PyDLL(None).sleep(1000)
    return {"y": x}

remote._DETACH_TIMEOUT = int(sys.argv[1])
with RemoteTriton(sys.argv[2]) if sys.argv[2:] else triton(exit_timeout_secs=int(sys.argv[1])) as server:
    bind(server, "held", held)
    once_in_serve(lambda: print(server._url, flush=True))
    server.serve()
"""
UNRESPONSIVE = "penstock: left without waiting for what holds the interpreter"
CASES = pytest.mark.parametrize(("timeout", "signals"), [(2, 1), (600, 2)], ids=["deadline", "second signal"])


@contextmanager
def script(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """Returns the next line of output."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def end(process: subprocess.Popen[str], signals: int) -> None:
    """Sends the remaining signals, and checks the end of the process."""
    for _ in range(signals - 1):
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, UNRESPONSIVE in errors, "penstock: cut off: " in errors) == (3, True, True), errors


@pytest.mark.fault("SIGTERM while held")
@CASES
def test_signal_stops_serve_while_a_callable_holds_the_gil(timeout: int, signals: int) -> None:
    with script(timeout) as process:
        address = line(process)
        [future] = at_once([lambda: infer(address, "held", {"x": ROW})])
        assert line(process) == "entered"
        assert get(address, "/v2/health/ready").status == 200
        process.send_signal(signal.SIGTERM)
        until(lambda: is_draining(address), "the server to drain")
        assert not future.done()
        end(process, signals)
        assert future.exception()


@pytest.mark.fault("SIGTERM while held")
@CASES
def test_signal_stops_a_remote_script_while_a_callable_holds_the_gil(
    timeout: int, signals: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with triton() as server, script(timeout, url(server)) as process:
        assert line(process) == url(server)
        [future] = at_once([lambda: infer_row(server, "held")])
        assert line(process) == "entered"
        process.send_signal(signal.SIGTERM)
        until(lambda: get(url(server), "/v2/models/held/ready").status == 404, "the model to be detached")
        assert not future.done()
        end(process, signals)
        assert future.result().status == 500
