"""A serving script as a process: signals, its end, and its exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from live import ROW

from http_by_hand import get, infer
from waiting import PATIENCE, until

SCRIPT = """
import signal, sys, threading, time
from live import bind, once_in_serve, triton, url
from penstock.compat.pytriton.decorators import batch

@batch
def held(x):
    print("entered", flush=True)
    while not hold.is_set():
        time.sleep(0.01)
    return {{"y": x * 2}}

def report():
    print("in serve", flush=True)

hold = threading.Event()
server = triton(exit_timeout_secs=60)
bind(server)
bind(server, "held", held)
server.run()
print(url(server), flush=True)
{body}
"""


def environment() -> dict[str, str]:
    """Environment of a process that imports the modules of these tests."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


@contextmanager
def script(body: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Runs a script that serves `m` and `held` and then runs `body`. Yields the process and its lines of output."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []

    def collect() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.append(line.rstrip())

    reader = threading.Thread(target=collect)
    reader.start()
    try:
        yield process, lines
    finally:
        process.kill()
        process.wait(PATIENCE)
        reader.join(PATIENCE)


def serving(lines: list[str]) -> str:
    """Returns the script's address, after it has entered `serve` and handles signals there."""
    until(lambda: "in serve" in lines, "the script to serve")
    return next(line for line in lines if line.startswith("http://"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_serve_and_the_script_continues(number: signal.Signals) -> None:
    with script("once_in_serve(report); server.serve(); print('after', server.is_alive(), flush=True)") as (
        process,
        lines,
    ):
        address = serving(lines)
        assert get(address, "/v2/health/ready").status == 200
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        until(lambda: "after False" in lines, str(lines))


def test_signal_lets_requests_finish() -> None:
    body = """
def release_later():
    while server.is_connected():
        time.sleep(0.01)
    hold.set()
threading.Thread(target=release_later).start()
once_in_serve(report)
server.serve()
"""
    with script(body) as (process, lines):
        address = serving(lines)
        outputs: list[list[list[float]]] = []
        thread = threading.Thread(target=lambda: outputs.append(infer(address, "held", {"x": ROW}).array("y").tolist()))
        thread.start()
        until(lambda: "entered" in lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        thread.join(PATIENCE)
        assert outputs == [[[2, 4]]]


def test_second_signal_cancels_requests() -> None:
    body = """
once_in_serve(report)
server.serve()
print("after", flush=True)
hold.set()
"""
    with script(body) as (process, lines):
        address = serving(lines)

        def send_request() -> None:
            with suppress(OSError):
                infer(address, "held", {"x": ROW})

        thread = threading.Thread(target=send_request)
        thread.start()
        until(lambda: "entered" in lines)
        process.send_signal(signal.SIGINT)
        until(lambda: get_status(address) != 200, "the drain")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        until(lambda: "after" in lines)
        thread.join(PATIENCE)


def get_status(address: str) -> int:
    try:
        return get(address, "/v2/health/ready").status
    except OSError:
        return 0


def test_signal_handler_of_the_script_is_preserved() -> None:
    body = """
def handler(*_):
    print("handled", flush=True)
    server.stop()
signal.signal(signal.SIGTERM, handler)
once_in_serve(report)
server.serve()
"""
    with script(body) as (process, lines):
        serving(lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        until(lambda: "handled" in lines)


def test_end_of_a_script_stops_its_server() -> None:
    """The server ends with the script, for a normal end and for an error."""
    for body, status in (("pass", 0), ("raise OSError('no')", 1), ("sys.exit(3)", 3)):
        with script(body) as (process, lines):
            assert process.wait(PATIENCE) == status, lines
            until(lambda: lines[0].startswith("http://"), str(lines))
