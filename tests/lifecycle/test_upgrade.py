"""`penstock upgrade`: a new process takes the sockets, and the old one ends. If it fails, the old one goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from observe import free_ports
from test_systemd import manager, received

from http_by_hand import Connection, get, post
from penstock import ConfigError, Server, StartupError
from penstock._reload.identity import Events, Mark
from penstock._reload.pid_file import PidFile
from penstock._serve.program import Program
from penstock._serve.successor import Successor
from penstock._serve.upgrade import Upgradable, Upgrades
from penstock.config import load_config
from serving_process import Serving
from waiting import PATIENCE, at_once, until

APP = """
import os, pathlib, time
from collections.abc import Iterator
from penstock import model

@model
def process(x: int) -> int:
    return os.getpid()

@model
def variable(x: str) -> str:
    return os.environ.get(x, "")

@model
def held(x: int) -> Iterator[int]:
    yield os.getpid()
    while not pathlib.Path("go").exists():
        time.sleep(0.005)
    yield os.getpid()
"""

WAIT = """
import pathlib, time
while not pathlib.Path("loads").exists():
    time.sleep(0.005)
"""

FAILS = """
@model
class Fails:
    def __init__(self) -> None:
        raise RuntimeError("no weights")
    def __call__(self, x: int) -> int:
        return x
"""

ADDRESSES = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--pid-file", "pid")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def number(folder: Path) -> int:
    return int((folder / "pid").read_text())


@contextmanager
def serving(folder: Path, *flags: str, **options: Any) -> Iterator[Serving]:
    """A server; the process that has replaced it at the end is killed, too, since it is not a child of the test."""
    with Serving("app.py", *(flags or ADDRESSES), folder=folder, **options) as server:
        try:
            yield server
        finally:
            with suppress(OSError, ValueError):
                if number(folder) != server.process.pid:
                    os.kill(number(folder), signal.SIGKILL)


def command(folder: Path, *options: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "penstock", "upgrade", *(options or ("--pid-file", "pid"))]
    return subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and output of the command, whichever stream it is on."""
    with process:
        out, err = process.communicate(timeout=PATIENCE * 3)
        return process.returncode, (out + err).strip()


def upgrade(folder: Path) -> int:
    """Upgrades, and returns the new process."""
    old = number(folder)
    status, text = outcome(command(folder))
    assert status == 0, text
    new = number(folder)
    assert text == f"penstock: process {new} serves; process {old} finishes its requests and ends"
    return new


def served_by(url: str) -> int:
    return int(post(url, "/models/process", b'{"x": 1}').body)


def await_end(process: int) -> None:
    until(lambda: not os.path.exists(f"/proc/{process}"), f"the end of process {process}")


def is_refused(url: str) -> bool:
    with pytest.raises(ConnectionRefusedError):
        get(url, "/v2")
    return True


def failure(reason: str, old: int) -> str:
    return f"penstock: error: the new server did not become ready: {reason}; the old one goes on (pid {old})"


def test_new_process_serves_and_the_old_one_ends(folder: Path) -> None:
    with serving(folder) as server:
        old = server.process.pid
        assert served_by(server.http) == old
        new = upgrade(folder)
        assert new != old
        assert server.process.wait(PATIENCE) == 0
        assert served_by(server.http) == new
        # Again, by the process that has replaced another one.
        newer = upgrade(folder)
        assert served_by(server.http) == newer
        await_end(new)
        assert number(folder) == newer
        os.kill(newer, signal.SIGTERM)
        await_end(newer)
        assert not (folder / "pid").exists()
        assert is_refused(server.http)


def test_open_connection_gets_one_more_response_of_the_old_process(folder: Path) -> None:
    with serving(folder) as server, Connection(server.http) as kept:
        old = server.process.pid
        assert int(kept.send_request("POST", "/models/process", b'{"x": 1}').body) == old
        new = upgrade(folder)
        last = kept.send_request("POST", "/models/process", b'{"x": 1}')
        assert (int(last.body), last.headers["connection"]) == (old, "close")
        assert served_by(server.http) == new
        assert server.process.wait(PATIENCE) == 0


def test_idle_connection_does_not_keep_the_old_process(folder: Path) -> None:
    with serving(folder, *ADDRESSES, "--drain-timeout", "500ms") as server, Connection(server.http) as kept:
        assert kept.send_request("GET", "/v2").status == 200
        upgrade(folder)
        assert server.process.wait(PATIENCE) == 0
        assert kept.sock.recv(1) == b""


def test_stream_goes_on_in_the_old_process(folder: Path) -> None:
    with serving(folder) as server:
        old = server.process.pid
        document = {"x": 1}
        with httpx.stream("POST", f"{server.http}/v2/models/held/generate_stream", json=document) as stream:
            events = (line for line in stream.iter_lines() if line)
            assert f":{old}}}" in next(events)
            new = upgrade(folder)
            assert served_by(server.http) == new
            assert server.process.poll() is None
            (folder / "go").touch()
            assert f":{old}}}" in next(events)
        assert server.process.wait(PATIENCE) == 0


def test_path_of_a_unix_socket_stays_until_the_last_process_ends(folder: Path) -> None:
    path = folder / "http.sock"
    with serving(folder, "--http", f"unix:{path}", "--grpc", "off", "--pid-file", "pid") as server:
        inode = path.stat().st_ino
        new = upgrade(folder)
        assert server.process.wait(PATIENCE) == 0
        assert path.stat().st_ino == inode
        assert served_by(f"unix:{path}") == new
        os.kill(new, signal.SIGTERM)
        await_end(new)
        assert not path.exists()


def test_path_of_a_unix_socket_survives_a_model_that_cannot_be_built(folder: Path) -> None:
    path = folder / "http.sock"
    with serving(folder, "--http", f"unix:{path}", "--grpc", "off", "--pid-file", "pid") as server:
        old = server.process.pid
        (folder / "app.py").write_text(APP + FAILS)
        reason = "model 'Fails' version '1' could not be loaded: RuntimeError: no weights"
        assert outcome(command(folder)) == (1, failure(reason, old))
        assert served_by(f"unix:{path}") == old


def test_inherited_socket_passes(folder: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.fileno()
        flags = ("--http", "127.0.0.1:0", "--grpc", "off", "--admin", f"fd:{number}", "--pid-file", "pid")
        with serving(folder, *flags, descriptors=[number]) as server:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            assert served_by(url) == server.process.pid
            new = upgrade(folder)
            assert server.process.wait(PATIENCE) == 0
            assert served_by(url) == new
            newer = upgrade(folder)
            assert served_by(url) == newer


def test_settings_are_read_again(folder: Path) -> None:
    """The address that is no longer configured closes."""
    before, after, kept = free_ports(3)
    file = folder / "penstock.toml"
    text = '[server]\nhttp = "127.0.0.1:{}"\ngrpc = "127.0.0.1:{}"\npid_file = "pid"\n'
    file.write_text(text.format(before, kept))
    with serving(folder, "--log-level", "info") as server:
        file.write_text(text.format(after, kept))
        new = upgrade(folder)
        assert server.process.wait(PATIENCE) == 0
        assert served_by(f"http://127.0.0.1:{after}") == new
        assert is_refused(f"http://127.0.0.1:{before}")


def test_program_is_found_by_its_path_again(folder: Path) -> None:
    """A link to the release that was the current one at the start."""
    for release in ("one", "two"):
        (folder / release).mkdir()
        program = folder / release / "penstock"
        lines = [f"#!{sys.executable}", "import os, sys", f"os.environ['RELEASE'] = {release!r}"]
        lines += ["sys.argv.insert(1, 'serve')"]
        program.write_text("\n".join([*lines, "from penstock.__main__ import main", "sys.exit(main())\n"]))
        program.chmod(0o755)
    (folder / "current").symlink_to("one")
    script = str(folder / "current" / "penstock")
    with serving(folder, *ADDRESSES, script=script) as server:
        assert post(server.http, "/models/variable", b'{"x": "RELEASE"}').json() == "one"
        (folder / "next").symlink_to("two")
        (folder / "next").replace(folder / "current")
        upgrade(folder)
        assert post(server.http, "/models/variable", b'{"x": "RELEASE"}').json() == "two"


def test_missing_program_is_searched_in_path(tmp_path: Path) -> None:
    moved = tmp_path / "penstock"
    moved.write_text("#!/bin/sh\n")
    moved.chmod(0o755)
    program = Program(["/no/such/penstock", "serve"], str(tmp_path), {"PATH": str(tmp_path)})
    assert program.found() == [str(moved), "serve"]
    moved.unlink()
    with pytest.raises(FileNotFoundError, match="/no/such/penstock is not found any more, neither there nor in PATH"):
        program.found()


BROKEN = {
    "raises": ("raise RuntimeError('too old')", "app.py: RuntimeError: too old"),
    "exits": ("import os; os._exit(9)", "it ended with status 9, and its output has the reason"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_old_process_goes_on_if_the_new_one_fails(folder: Path, kind: str) -> None:
    code, reason = BROKEN[kind]
    with serving(folder) as server:
        old = server.process.pid
        (folder / "app.py").write_text(code + "\n" + APP)
        status, text = outcome(command(folder))
        assert status == 1
        assert reason in text
        assert text.startswith("penstock: error: the new server did not become ready: ")
        assert text.endswith(f"; the old one goes on (pid {old})")
        assert f"penstock: upgrade: {text.removeprefix('penstock: error: ')}" in server.err
        assert served_by(server.http) == old == number(folder)
        (folder / "app.py").write_text(APP)
        assert upgrade(folder) == served_by(server.http)
        assert server.process.wait(PATIENCE) == 0


def test_wrong_settings_are_the_reason(folder: Path) -> None:
    (folder / "penstock.toml").write_text("")
    with serving(folder) as server:
        (folder / "penstock.toml").write_text("[server]\nidle_timeout = 'soon'\n")
        reason = "penstock.toml:2: idle_timeout: 'soon' is not a duration such as 500ms, 30s or 2m"
        assert outcome(command(folder)) == (1, failure(reason, server.process.pid))


def test_new_process_that_takes_too_long_is_ended(folder: Path) -> None:
    with serving(folder, *ADDRESSES, "--upgrade-timeout", "300ms") as server:
        old = server.process.pid
        (folder / "app.py").write_text(WAIT + APP)
        assert outcome(command(folder)) == (1, failure("it took longer than 0.3 s", old))
        [started] = re.findall(r"upgrade: process (\d+) loads", server.err)
        assert not os.path.exists(f"/proc/{started}")
        assert served_by(server.http) == old == number(folder)


def test_second_upgrade_is_refused_while_one_runs(folder: Path) -> None:
    with serving(folder) as server:
        old = server.process.pid
        (folder / "app.py").write_text(WAIT + APP)
        first = command(folder)
        server.await_stderr("loads the models")
        [started] = re.findall(r"upgrade: process (\d+) loads", server.err)
        reason = f"an upgrade to process {started} is under way"
        assert outcome(command(folder)) == (1, f"penstock: error: {reason}; nothing was sent")
        server.signal(signal.SIGUSR2)
        server.await_stderr(f"penstock: upgrade: {reason}\n")
        assert served_by(server.http) == old
        (folder / "loads").touch()
        status, text = outcome(first)
        assert (status, number(folder)) == (0, int(started)), text
        assert served_by(server.http) == int(started)


def test_new_process_serves_if_the_old_one_is_killed(folder: Path) -> None:
    with serving(folder) as server:
        (folder / "app.py").write_text(WAIT + APP)
        asking = command(folder)
        server.await_stderr("loads the models")
        [started] = re.findall(r"upgrade: process (\d+) loads", server.err)
        server.process.kill()
        server.process.wait(PATIENCE)
        status, text = outcome(asking)
        assert (status, text) == (1, f"penstock: error: process {server.process.pid} has ended without a report")
        # A connection waits in the socket's queue until the models are loaded.
        [waiting] = at_once([lambda: served_by(server.http)])
        (folder / "loads").touch()
        assert waiting.result(PATIENCE) == int(started) == number(folder)


def test_stop_signal_ends_both_processes(folder: Path) -> None:
    with serving(folder) as server:
        (folder / "app.py").write_text(WAIT + APP)
        asking = command(folder)
        server.await_stderr("loads the models")
        [started] = re.findall(r"upgrade: process (\d+) loads", server.err)
        server.signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        await_end(int(started))
        assert outcome(asking)[0] == 1
        assert is_refused(server.http)


def test_systemd_gets_the_new_process(folder: Path) -> None:
    with (
        manager(str(folder / "notify")) as receiver,
        serving(folder, environment={"NOTIFY_SOCKET": str(folder / "notify")}) as server,
    ):
        assert received(receiver) == {"READY": "1", "STATUS": "serves 3 models"}
        new = upgrade(folder)
        assert received(receiver) == {"MAINPID": str(new), "READY": "1", "STATUS": "serves 3 models"}
        assert received(receiver) == {"READY": "1", "STATUS": "serves 3 models"}
        assert server.process.wait(PATIENCE) == 0
        os.kill(new, signal.SIGTERM)
        # Not from the old one, which is not the service's process any more.
        assert received(receiver)["STOPPING"] == "1"


def test_command_reports_why_it_finds_no_server(folder: Path) -> None:
    assert outcome(command(folder, "--pid", "0")) == (2, "penstock upgrade: error: --pid: 0 is not a process number")
    status, text = outcome(command(folder, "--pid-file", "none"))
    assert (status, "there is no pid file none" in text) == (1, True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        expected = f"process {other.pid} is not a running `penstock serve` that can be upgraded; nothing was sent"
        assert outcome(command(folder, "--pid", str(other.pid))) == (1, f"penstock: error: {expected}")
        assert other.poll() is None
        other.communicate(b"\n")
    assert outcome(command(folder, "--pid", str(other.pid))) == (1, f"penstock: error: there is no process {other.pid}")


def test_server_that_loads_cannot_be_upgraded(folder: Path) -> None:
    slow = "\n@model\nclass Slow:\n    def __init__(self) -> None:"
    slow += textwrap.indent(WAIT, "        ") + "    def __call__(self, x: int) -> int: return x\n"
    (folder / "app.py").write_text(APP + slow)
    with Serving("app.py", *ADDRESSES, folder=folder, up=False) as server:
        until((folder / "pid").exists, "the pid file")
        expected = f"process {server.process.pid} still loads its models; nothing was sent"
        assert outcome(command(folder)) == (1, f"penstock: error: {expected}")


def test_variable_that_is_not_from_a_server_is_refused() -> None:
    expected = "PENSTOCK_UPGRADE is not from a server that is upgraded; unset it"
    for text in ("", "{}", "yes", '{"channel": "x", "sockets": [], "names": []}'):
        with pytest.raises(StartupError, match=expected):
            Successor.read({"PENSTOCK_UPGRADE": text})
        with pytest.raises(ConfigError, match=expected):
            load_config(environ={"PENSTOCK_UPGRADE": text})


NOT_FOUND = "/no/such/program is not found any more, neither there nor in PATH"


def requested(server: Server, events: Events, file: int) -> dict[str, Any]:
    """The event of a request of an upgrade to a server whose program is gone."""
    program = Program(["/no/such/program"], "/", {})
    Upgrades(server, Upgradable(program=program), Mark(file), PidFile(None)).request()
    serving, event = events.read()
    assert serving == {"event": "serving"}
    return event


def test_requests_that_cannot_be_met_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()
    file = os.memfd_create("penstock-serve")
    events = Events(own)
    with Server.empty(http="127.0.0.1:0", grpc=None) as server:
        gone = f"the new server did not become ready: {NOT_FOUND}; the old one goes on (pid {own})"
        assert requested(server, events, file) == {"event": "failed", "reason": gone}
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            ends = "process 1 cannot be replaced, because its container ends with it"
            assert requested(server, events, file) == {"event": "refused", "reason": ends}
    with Server.empty(http="127.0.0.1:0", grpc=None, attach=f"unix:{tmp_path}/attach") as server:
        attached = "attach: the models of other processes cannot be handed over"
        assert requested(server, events, file) == {"event": "refused", "reason": attached}
    events.close()
    os.close(file)
