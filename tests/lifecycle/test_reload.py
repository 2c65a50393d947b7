"""Code reloads by signal, by command and by file watching, without losing a request."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import metric_at
from penstock import Batching, PenstockError, Server, Tensor, model
from penstock._reload import identity, pid_file
from repositories import MODEL, Repository, RepositoryClient
from serving_process import Serving
from waiting import at_once, until


class App:
    """A served file, and a module that it imports."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "app.py"

    def write(self, text: str, name: str = "app.py") -> None:
        """Writes a file atomically."""
        (self.folder / ".new").write_text(text)
        os.replace(self.folder / ".new", self.folder / name)

    def put(self, factor: Any = 2, *, more: str = "", **code: str) -> None:
        """Writes the file: the model `times`, and more code."""
        parts = {"before": "", "build": "pass", "call": "pass", "close": "pass", **code}
        self.write(MODEL.format(factor=factor, **parts).replace("@model(", '@model(name="times",') + more)

    @contextmanager
    def served(self, *arguments: str) -> Iterator[tuple[Serving, RepositoryClient]]:
        ports = ("--http", "127.0.0.1:0", "--grpc", "off")
        with Serving("app.py", *ports, *arguments, folder=self.folder) as server:
            yield server, RepositoryClient(server.http)


@pytest.fixture
def app(tmp_path: Path) -> App:
    one = App(tmp_path)
    one.put(2)
    return one


def reload(server: Serving, message: str = "reloaded in") -> None:
    """Reloads by a signal, and waits until the server reports the outcome."""
    count = server.err.count(message)
    server.signal(signal.SIGHUP)
    until(lambda: server.err.count(message) > count, f"{message!r} on standard error, after {server.err}")


def test_no_request_is_lost_in_twenty_reloads(app: App) -> None:
    app.put(1)
    with app.served() as (server, client):
        ends = threading.Event()

        def send_requests() -> list[float | str]:
            factors: list[float | str] = []
            while not ends.is_set():
                factors.append(client.factor("times"))
            return factors

        clients = at_once([send_requests] * 4)
        for factor in range(2, 22):
            # Every fourth edit is invalid code.
            if factor % 4 == 0:
                app.write("def broken(:\n")
                reload(server, "reload failed")
            app.put(factor)
            reload(server)
            assert client.factor("times") == factor
        ends.set()
        for responses in [one.result(timeout=20) for one in clients]:
            assert len(responses) > 20
            refusals = [one for one in responses if not isinstance(one, float)]
            assert not refusals, refusals[:3]
            # Factors never decrease: no request reaches replaced code.
            assert responses == sorted(responses)  # type: ignore[type-var]
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0


def test_requests_in_flight_finish_on_the_old_code(app: App, tmp_path: Path) -> None:
    wait = f"import pathlib, time; pathlib.Path({str(tmp_path / 'in')!r}).touch()\n" + (
        f"        while not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.005)"
    )
    app.put(2, call=wait, close=f"__import__('pathlib').Path({str(tmp_path / 'closed')!r}).touch()")
    with app.served() as (server, client):
        (running,) = at_once([lambda: client.factor("times")])
        until((tmp_path / "in").exists, "the request in the handler")
        app.put(3)
        reload(server)
        assert client.factor("times") == 3
        assert not (tmp_path / "closed").exists()
        (tmp_path / "go").touch()
        assert running.result(timeout=20) == 2
        until((tmp_path / "closed").exists, "the old instance to close its handler")


def test_handler_metrics_continue_after_a_reload(app: App) -> None:
    code = """
from penstock import Context
@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], batching=Batching())
def counted(x, ctx: Context):
    ctx.metrics.counter("calls")
    ctx.metrics.observe("size", 2)
    ctx.counter("calls")
    return x
"""
    app.put(2, more=code)
    with app.served() as (server, client):
        for calls in (1, 2):
            assert client.factor("counted") == 1
            assert metric_at(server.http, "calls_total", model="counted", version="1") == calls
            assert metric_at(server.http, "size_count", model="counted") == calls
            assert metric_at(server.http, "penstock_custom_total", model="counted", name="calls") == calls
            reload(server)


BROKEN = {
    "syntax": (lambda app: app.write("\n\ndef broken(:\n"), "SyntaxError (app.py, line 3)"),
    "name": (lambda app: app.put(3, more="\nundefined\n"), r"NameError \(app.py, line \d+\)"),
    "build": (lambda app: app.put(3, build="raise RuntimeError('secret')"), r"RuntimeError \(app.py, line \d+\)"),
    "no model": (lambda app: app.write("x = 1\n"), "app.py has no @model"),
    "signature": (lambda app: app.put(3, more="\n@model\ndef what(x): return x\n"), "what"),
    "import": (lambda app: app.put(3, before="import no_such_module"), r"ModuleNotFoundError \(app.py, line \d+\)"),
    "exit": (lambda app: app.put(3, more="\nimport sys; sys.exit(3)\n"), r"SystemExit|sys.exit"),
    "gone": (lambda app: app.path.unlink(), "there is no file"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_code_is_reported_and_changes_nothing(app: App, kind: str) -> None:
    edit, message = BROKEN[kind]
    with app.served() as (server, client):
        edit(app)
        reload(server, "reload failed, what serves goes on: ")
        assert client.factor("times") == 2
        assert client.states("times") == {"1": "READY"}
        reason = client.reason("times")
        assert reason.startswith("the models could not be reloaded: ")
        assert message in reason or re.search(message, reason), reason
        assert "secret" not in reason
        assert str(app.folder) not in reason
        assert reason in server.err
        app.put(4)
        reload(server)
        assert client.factor("times") == 4
        assert client.reason("times") == ""


def test_reload_adds_removes_and_changes_models(app: App) -> None:
    other = """
@model(name="other", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def other(x):
    return x + 1
"""
    with app.served() as (server, client):
        app.put(2, more=other)
        reload(server)
        assert client("GET", "/v2/models")[1] == {"models": ["other", "times"]}
        app.write(MODEL.split("@model")[0].format(before="") + other.replace("float32", "int64").replace('"x"', '"a"'))
        reload(server)
        assert client("GET", "/v2/models")[1] == {"models": ["other"]}
        until(lambda: client.index("times") == [], "the removed model to end")
        assert client.factor("times") == "unknown model 'times'"
        assert client("GET", "/v2/models/other")[1]["inputs"] == [{"name": "a", "datatype": "INT64", "shape": [1]}]
        body = {"inputs": [{"name": "a", "datatype": "INT64", "shape": [1], "data": [41]}]}
        assert client("POST", "/v2/models/other/infer", body)[1]["outputs"][0]["data"] == [42]
        # A failure in one model changes none of them.
        app.put(5, build="1 / 0", more=other.replace("x + 1", "x + 2"))
        reload(server, "reload failed")
        assert client("POST", "/v2/models/other/infer", body)[1]["outputs"][0]["data"] == [42]


def test_modules_imported_by_the_app_are_reloaded(app: App) -> None:
    app.write("FACTOR = 2\n", "own.py")
    app.put("own.FACTOR", before="import own")
    with app.served() as (server, client):
        # The same size, and perhaps the same second.
        for factor in (3, 4, 5):
            app.write(f"FACTOR = {factor}\n", "own.py")
            reload(server)
            assert client.factor("times") == factor


def test_old_code_is_garbage_collected(app: App) -> None:
    with app.served() as (server, client):
        for factor in range(3, 6):
            finalizer = f"\nimport weakref; weakref.finalize(Times.__wrapped__, print, 'gone', {factor}, flush=True)\n"
            app.put(factor, more=finalizer)
            reload(server)
            assert client.factor("times") == factor
        until(lambda: "gone 3" in server.out and "gone 4" in server.out, "the end of the old code")
        assert "gone 5" not in server.out


def test_changed_files_are_reloaded_when_watching(app: App) -> None:
    app.write("FACTOR = 2\n", "own.py")
    app.put("own.FACTOR", before="import own")
    with app.served("--reload") as (server, client):
        app.write("FACTOR = 3\n", "own.py")
        until(lambda: client.factor("times") == 3, "the changed module")
        app.put("own.FACTOR + new.MORE", before="import own, new")
        server.await_stderr("reload failed, what serves goes on: the models could not be reloaded: ModuleNotFoundError")
        app.write("MORE = 4\n", "new.py")
        until(lambda: client.factor("times") == 7, "the file that was missing")
        app.write("MORE = (\n", "new.py")
        server.await_stderr("SyntaxError (new.py, line 1)")
        assert client.factor("times") == 7
        app.write("MORE = 5\n", "new.py")
        until(lambda: client.factor("times") == 8, "the mended file")


def test_files_are_not_watched_by_default(app: App) -> None:
    with app.served() as (server, client):
        app.put(3)
        reload(server)
        app.put(4)
        assert client.factor("times") == 3
        assert "reload" not in server.err.replace("reloaded in", "", 1)


def penstock_reload(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "reload", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_reload_command_finds_the_server_by_pid_file_or_pid(app: App) -> None:
    file = app.folder / "pid"
    with app.served("--pid-file", "pid") as (server, client):
        assert file.read_text() == f"{server.process.pid}\n"
        for factor, option in ((3, ("--pid-file", "pid")), (4, ("--pid", str(server.process.pid)))):
            app.put(factor)
            done = penstock_reload(*option, folder=app.folder)
            assert (done.returncode, done.stderr) == (0, "")
            assert f"requested a reload from process {server.process.pid}" in done.stdout
            until(lambda factor=factor: client.factor("times") == factor, "the new code")  # type: ignore[misc]
        with Serving("app.py", "--pid-file", "pid", "--http", "127.0.0.1:0", folder=app.folder, up=False) as second:
            assert second.exit_status() == 1
            assert f"pid_file: {file} is held by a running server; each server needs its own" in second.err
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert not file.exists()


def test_reload_command_reports_why_it_finds_no_server(app: App) -> None:
    def refused(*arguments: str, status: int = 1) -> str:
        done = penstock_reload(*arguments, folder=app.folder)
        assert done.returncode == status
        return done.stderr

    assert "which server? give --pid, --pid-file, or the setting pid_file" in refused(status=2)
    assert "--pid: 0 is not a process number" in refused("--pid", "0", status=2)
    assert "there is no pid file pid; is the server running" in refused("--pid-file", "pid")
    # Stale file of a killed server: its pid may belong to another process by now.
    (app.folder / "pid").write_text(f"{os.getpid()}\n")
    assert "no server holds pid: its server was killed" in refused("--pid-file", "pid")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert f"process {other.pid} is not a running `penstock serve` that reloads; nothing was sent" in refused(
            "--pid", str(other.pid)
        )
        assert other.poll() is None
        other.communicate(b"\n")
    assert f"there is no process {other.pid}" in refused("--pid", str(other.pid))


CATCHES = """
import fcntl, signal, sys
signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print("ready", flush=True)
input()
"""


def test_reload_command_signals_no_other_process(app: App) -> None:
    """A process that catches SIGHUP, as a shell does, and even holds the pid file's lock."""
    (app.folder / "pid").write_text("")
    command = [sys.executable, "-c", CATCHES, "pid"]
    with subprocess.Popen(command, cwd=app.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        (app.folder / "pid").write_text(f"{other.pid}\n")
        for option in (("--pid-file", "pid"), ("--pid", str(other.pid))):
            done = penstock_reload(*option, folder=app.folder)
            assert done.returncode == 1
            assert f"process {other.pid} is not a running `penstock serve` that reloads" in done.stderr
        other.communicate("\n")
        assert other.returncode == 0


def test_reload_command_needs_the_pid_of_the_holder(app: App) -> None:
    """A pid file whose number was changed to that of another process, while its server runs."""
    command = [sys.executable, "-c", CATCHES, "other"]
    (app.folder / "other").touch()
    with (
        app.served("--pid-file", "pid"),
        subprocess.Popen(command, cwd=app.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        (app.folder / "pid").write_text(f"{other.pid}\n")
        done = penstock_reload("--pid-file", "pid", folder=app.folder)
        assert (done.returncode, "nothing was sent" in done.stderr) == (1, True)
        other.communicate("\n")
        assert other.returncode == 0


def test_pid_file_is_enough_where_proc_is_missing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "has_proc", lambda: False)
    monkeypatch.setattr(identity, "is_marked", lambda number: False)
    with app.served("--pid-file", "pid") as (server, client):
        app.put(3)
        with pytest.raises(PenstockError, match="cannot be checked on this system: give --pid-file instead of --pid"):
            pid_file.request_reload(server.process.pid)
        pid_file.request_reload(server.process.pid, str(app.folder / "pid"))
        until(lambda: client.factor("times") == 3, "the new code")


def test_reload_signal_polls_repositories(app: App) -> None:
    repository = Repository(app.folder / "models")
    repository.put("a", factor=2)
    with app.served("--repository", "models") as (server, client):
        repository.put("a", factor=3)
        repository.put("b", factor=5)
        app.put(7)
        reload(server)
        assert (client.factor("times"), client.factor("a"), client.factor("b")) == (7, 3, 5)
        repository.put("times", factor=1)
        reload(server)
        assert client.factor("times") == 7
        app.put(8, more=MODEL.split("@model")[0].format(before="") + "\n@model\ndef b(x: int) -> int: return x\n")
        reload(server, "reload failed")
        assert "model 'b' is given twice, one of them in a repository" in client.reason("times")


def test_stop_signal_aborts_a_long_reload(app: App) -> None:
    with app.served() as (server, client):
        app.put(3, build="import time; time.sleep(2); print('built', flush=True)")
        server.signal(signal.SIGHUP)
        until(lambda: client("POST", "/v2/repository/index")[0] == 200)
        server.signal(signal.SIGTERM)
        server.exit_status()
        assert "Traceback" not in server.err


def times(factor: float) -> Any:
    tensors = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
    return model(name="a", batching=Batching(max_size=8), **tensors)(lambda x: x * factor)  # type: ignore[call-overload]


def test_reload_from_python() -> None:
    with Server(times(2), http="127.0.0.1:0", grpc=None) as server:
        client = RepositoryClient(server.http_url)
        assert server.reload(lambda: [times(3)]) == ["a"]
        assert client.factor("a") == 3
        fails: Callable[[], list[Any]] = lambda: [1 / 0]  # noqa: E731
        with pytest.raises(PenstockError, match="the models could not be reloaded: ZeroDivisionError"):
            server.reload(fails)
        assert client.factor("a") == 3
    with pytest.raises(PenstockError, match="the server is not started"):
        Server(times(2), http="127.0.0.1:0", grpc=None).reload(lambda: [times(3)])
