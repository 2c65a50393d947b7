"""Stacks of a server and its processes, from inside and outside, while the GIL is held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from http_by_hand import connect, get, infer, read_response
from serving_process import Serving
from stuck_server import GUARD, LONG, call, line_of, serve
from waiting import at_once, until

NUMBER = signal.SIGRTMIN + 5


def shown(server: Serving) -> str:
    response = get(server.http, "/debug/stacks")
    assert response.status == 200, response.body
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    return response.body.decode()


def command(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "penstock", "stacks", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=folder, check=False)


def test_stacks_of_an_idle_server_have_its_threads() -> None:
    with serve("locked") as server:
        text = shown(server)
        assert text.startswith(f"process {server.process.pid}: server\n\n")
        assert "Thread 0x" in text
        assert "in <module>" in text
        assert shown(server).count("Thread 0x") == text.count("Thread 0x"), "each response begins anew"


@pytest.mark.parametrize(("model", "line"), [("held", "# held: the GIL too"), ("spinning", "# spinning")])
def test_stacks_name_the_line_while_the_handler_holds_the_interpreter(model: str, line: str) -> None:
    with serve(model) as server:
        at_once([call(server, model, LONG)])
        wanted = f'stuck.py", line {line_of(line)} in {model}'
        until(lambda: wanted in shown(server), "the line", GUARD)
        outside = command("--pid", str(server.process.pid))
        assert outside.returncode == 0, outside.stderr
        assert f"process {server.process.pid}\n\n" in outside.stdout
        assert f" in {model}" in outside.stdout
        # Many readers at once get whole stacks.
        texts = [one.result().body.decode() for one in at_once([lambda: get(server.http, "/debug/stacks")] * 3)]
        assert all(f" in {model}" in text or "another reader" in text for text in texts)


def test_stacks_of_a_stuck_child_and_of_a_stopped_one(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with serve("child", "--pid-file", str(pid_file)) as server:
        at_once([call(server, "child", LONG)])
        wanted = f'stuck.py", line {line_of("# child")} in child'
        until(lambda: wanted in shown(server), "the line", GUARD)
        text = shown(server)
        (heading,) = [line for line in text.splitlines() if line.endswith("model 'child' version '1' instance 0")]
        process = int(heading.split()[1].rstrip(":"))
        outside = command("--pid-file", str(pid_file))
        assert outside.returncode == 0, outside.stderr
        assert f"process {process}, started by {server.process.pid}" in outside.stdout
        assert wanted in outside.stdout
        os.kill(process, signal.SIGSTOP)
        try:
            told = f"stacks: process {process} did not answer within 200 ms, it is stopped"
            until(lambda: told in shown(server), "the state", GUARD)
            outside = command("--pid", str(server.process.pid))
            assert (outside.returncode, told in outside.stdout) == (1, True)
        finally:
            os.kill(process, signal.SIGCONT)
        until(lambda: wanted in shown(server), "the line", GUARD)


@pytest.mark.parametrize("when", ["before", "after"])
def test_program_that_uses_the_signal_keeps_it(tmp_path: Path, when: str) -> None:
    app = f"""
import signal, sys, penstock, threading
WHEN = {when!r}
if WHEN == "before":
    signal.signal({NUMBER}, lambda *_: print("program's own", flush=True))

@penstock.model
class late:
    def __call__(self, x: int) -> int:
        return x
"""
    script = (
        app
        + f"""
from penstock import Server
import time
if __name__ == "__main__":
    with Server(late, http="127.0.0.1:0", grpc=None) as server:
        if WHEN == "after":
            signal.signal({NUMBER}, signal.SIG_DFL)
        print("http  " + server.http_url, flush=True)
        time.sleep(1000)
"""
    )
    (tmp_path / "app.py").write_text(script)
    with Serving(script="app.py", folder=tmp_path, up=False) as server:
        until(lambda: "http  " in server.out, "the server to start", GUARD)
        response = get(server.http, "/debug/stacks")
        assert (response.status, response.error()) == (503, f"stacks: signal {NUMBER} is used by the program")
        assert infer(server.http, "late", {"x": np.array(1)}).status == 200
        outside = command("--pid", str(server.process.pid))
        expected = f"penstock: error: stacks: process {server.process.pid} has not registered signal {NUMBER}"
        assert (outside.returncode, outside.stderr.strip().splitlines()[-1]) == (1, expected)


def test_stacks_are_for_this_machine_unless_something_protects_them() -> None:
    head = b"GET /debug/stacks HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 10.0.0.1\r\n"
    with serve("locked") as server, connect(server.http) as sock:
        sock.sendall(head + b"\r\n")
        response = read_response(sock)
        expected = "/debug/stacks is for programs of this machine, unless keys, restricted_access or admin protect it"
        assert (response.status, response.error()) == (403, expected)
    rule = ("--restricted-access", "debug:admin-key=s3cret")
    with serve("locked", *rule) as server, connect(server.http) as sock:
        assert get(server.http, "/debug/stacks").status == 403
        sock.sendall(head + b"admin-key: s3cret\r\n\r\n")
        assert read_response(sock).status == 200


def test_command_refuses_processes_without_the_handler(tmp_path: Path) -> None:
    # Not this process: a server of another test may have registered the signal.
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for arguments, status, message in [
            ((), 2, "penstock stacks: error: which server? give --pid, --pid-file, or the setting pid_file"),
            (("--pid", "0"), 2, "penstock stacks: error: --pid: 0 is not a process number"),
            (("--pid", str(2**31 - 1)), 1, f"penstock: error: stacks: there is no process {2**31 - 1}"),
            (
                ("--pid", str(other.pid)),
                1,
                f"penstock: error: stacks: process {other.pid} has not registered signal {NUMBER}",
            ),
        ]:
            result = command(*arguments, folder=tmp_path)
            assert (result.returncode, result.stderr.strip().splitlines()[-1]) == (status, message)
        other.communicate(b"\n", timeout=60)


def test_stacks_are_whole_while_threads_of_python_run() -> None:
    """Reads often, while handlers run Python: the frames change, and the process must survive it."""
    with serve("spinning") as server:
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                infer(server.http, "spinning", {"x": np.array([0.01], np.float32)})

        loads = at_once([load] * 4)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert "Thread 0x" in shown(server)
        stop.set()
        [one.result() for one in loads]
        assert server.process.poll() is None
