"""Listening sockets that the server inherits: `LISTEN_FDS` of systemd, and addresses of the form `fd:N`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc
import pytest
from observe import free_ports
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import get, post
from penstock import BindError, ConfigError, Server, model
from penstock._config import listeners
from penstock._config.sockets import inherited
from penstock.config import ServerConfig, load_config
from serving_process import Serving
from waiting import until

APP = """
import os
from penstock import Processes, model

@model
def same(x: float) -> float:
    return x

@model(instances=Processes(1))
def seen(x: int) -> str:
    sockets = {os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if one != "0"
               if os.path.exists(f"/proc/self/fd/{one}")}
    variables = [name for name in os.environ if name.startswith("LISTEN_")]
    return " ".join([*variables, *sorted(sockets)])
"""

PASS_ON = """
import os, sys
names, *command = sys.argv[1:]
names, numbers = names.split("=")
numbers = [int(one) for one in numbers.split(",")]
high = [os.dup2(one, 50 + index, inheritable=False) for index, one in enumerate(numbers)]
for one in numbers:
    os.close(one)
for index, one in enumerate(high):
    os.dup2(one, 3 + index, inheritable=True)
os.environ |= {"LISTEN_FDS": str(len(numbers)), "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": names}
os.execvp(command[0], command)
"""
"""Does what systemd does: descriptors from 3 on, and variables for the process that it becomes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@contextmanager
def listening(path: Path | None = None) -> Iterator[socket.socket]:
    family = socket.AF_INET if path is None else socket.AF_UNIX
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if path is None else str(path))
        listener.listen(64)
        yield listener


def port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def is_live(target: str) -> bool:
    with grpc.insecure_channel(target) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return bool(stub.ServerLive(pb.ServerLiveRequest(), timeout=20).live)


def inode(listener: socket.socket) -> str:
    return f"socket:[{os.fstat(listener.fileno()).st_ino}]"


def test_sockets_of_systemd_replace_the_addresses_by_their_names(folder: Path) -> None:
    with listening() as http, listening() as grpc_socket, listening() as metrics, listening(folder / "admin") as admin:
        sockets = [http, grpc_socket, metrics, admin]
        numbers = ",".join(str(one.fileno()) for one in sockets)
        prefix = [sys.executable, "-c", PASS_ON, f"http:grpc:metrics:admin={numbers}"]
        flags = ["app.py", "--http", "127.0.0.1:1", "--listeners", "metrics=127.0.0.1:1"]
        descriptors = [one.fileno() for one in sockets]
        with Serving(*flags, prefix=prefix, folder=folder, descriptors=descriptors) as server:
            assert server.http == f"http://127.0.0.1:{port(http)}"
            assert server.grpc == f"127.0.0.1:{port(grpc_socket)}"
            assert get(server.http, "/v2/health/ready").status == 200
            assert is_live(server.grpc)
            assert get(f"http://127.0.0.1:{port(metrics)}", "/metrics").status == 200
            assert f"admin  unix:{folder / 'admin'}" in server.out
            # A worker process has neither the sockets nor the variables.
            shown = post(server.http, "/models/seen", b'{"x": 1}').body.decode()
            # The settings are the same when they are read again.
            server.signal(signal.SIGHUP)
            server.await_stderr("penstock: reloaded in ")
            assert "needs a restart" not in server.err
            assert "LISTEN_" not in shown
            assert "socket:[" in shown
            assert not [one for one in sockets if inode(one) in shown]
        # The path is systemd's.
        assert (folder / "admin").exists()


def test_addresses_of_descriptors_serve_what_the_setting_says(folder: Path) -> None:
    with listening() as both, listening(folder / "path") as further, listening() as admin:
        flags = ["app.py", "--http", f"fd:{both.fileno()}", "--grpc", "same", "--admin", f"fd:{admin.fileno()}"]
        flags += ["--listeners", f"http=fd:{further.fileno()}"]
        with Serving(*flags, folder=folder, descriptors=[one.fileno() for one in (both, further, admin)]) as server:
            assert server.http == f"http://127.0.0.1:{port(both)}"
            assert is_live(f"127.0.0.1:{port(both)}")
            assert get(f"unix:{folder / 'path'}", "/v2").status == 200
            assert get(server.http, "/metrics").status == 404
            assert get(f"http://127.0.0.1:{port(admin)}", "/metrics").status == 200
            server.process.terminate()
            assert server.exit_status() == 0
        assert (folder / "path").exists()


def test_connections_wait_until_the_models_are_loaded(folder: Path) -> None:
    """In the socket's queue: a restart of the service refuses none."""
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(folder / 'go')!r}).exists(): time.sleep(0.005)\n"
    (folder / "app.py").write_text(wait + APP)
    with listening() as http, socket.create_connection(("127.0.0.1", port(http))) as client:
        flags = ["app.py", "--http", f"fd:{http.fileno()}", "--grpc", "off"]
        client.sendall(b'POST /models/same HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{"x": 7}')
        with Serving(*flags, folder=folder, descriptors=[http.fileno()], up=False):
            (folder / "go").touch()
            client.settimeout(60)
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_sockets_for_another_process_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDNAMES": "htp"}
    assert load_config(environ=environ).http == "127.0.0.1:8000"
    assert inherited.texts({}) == {}


NAMES = "expected http, grpc, admin or metrics: set FileDescriptorName= in the socket unit"


@pytest.mark.parametrize(
    ("count", "names", "problem"),
    [
        ("1", "htp", f"LISTEN_FDNAMES names 'htp', no such address; {NAMES}"),
        ("2", "http:app.socket", f"LISTEN_FDNAMES names 'app.socket', no such address; {NAMES}"),
        ("1", None, f"LISTEN_FDNAMES has 0 names for 1 sockets; for each {NAMES}"),
        ("2", "http", f"LISTEN_FDNAMES has 1 names for 2 sockets; for each {NAMES}"),
        ("2", "admin:admin", "LISTEN_FDNAMES names 'admin' twice, expected it once"),
        ("two", "http", "LISTEN_FDS: 'two' is not a number of sockets, expected one from 0 to 256"),
    ],
)
def test_names_other_than_those_of_addresses_are_refused(count: str, names: str | None, problem: str) -> None:
    environ = {"LISTEN_FDS": count, "LISTEN_PID": str(os.getpid())}
    environ |= {} if names is None else {"LISTEN_FDNAMES": names}
    with pytest.raises(ConfigError) as refused:
        load_config(environ=environ)
    assert str(refused.value) == problem


def test_sockets_of_one_name_are_further_listeners() -> None:
    environ = {"LISTEN_FDS": "4", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "grpc:http:http:metrics"}
    config = load_config(environ=environ)
    assert (config.http, config.grpc) == ("fd:4", "fd:3")
    assert config.listeners == ("http=fd:5", "metrics=fd:6")


@model
def same(x: float) -> float:
    return x


def refused(address: str) -> str:
    with pytest.raises(BindError) as error:
        Server(same, http=address, grpc=None).start()
    return str(error.value)


def test_descriptor_that_is_not_a_listening_socket_is_refused(tmp_path: Path) -> None:
    expected = "expected a listening stream socket"
    assert refused("fd:999999") == f"cannot listen on fd:999999: the process has no such descriptor, {expected}"
    with (tmp_path / "file").open("w") as file:
        number = file.fileno()
        assert refused(f"fd:{number}") == f"cannot listen on fd:{number}: it is not a socket, {expected}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        number = datagrams.fileno()
        assert refused(f"fd:{number}") == f"cannot listen on fd:{number}: it is a socket of another kind, {expected}"
    with socket.socket() as idle:
        number = idle.fileno()
        assert refused(f"fd:{number}") == f"cannot listen on fd:{number}: the socket does not listen, {expected}"


@pytest.mark.parametrize("address", ["fd:", "fd:0", "fd:2", "fd:-1", "fd:x", "fd:1000000", "fd:03"])
def test_number_that_cannot_be_a_socket_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"http: '{address}' is not HOST:PORT .* fd:N, or off"):
        ServerConfig(http=address)


def test_admin_socket_of_other_machines_needs_a_key() -> None:
    with socket.socket() as exposed:
        exposed.bind(("0.0.0.0", 0))
        exposed.listen()
        with pytest.raises(ConfigError, match=r"admin: fd:\d+ can be reached from other machines"):
            ServerConfig(admin=f"fd:{exposed.fileno()}")
    with listening() as local:
        assert listeners.is_local(f"fd:{local.fileno()}")


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd-socket-activate is not installed")
def test_server_is_started_by_a_connection_to_systemd(folder: Path) -> None:
    http, grpc_port = free_ports(2)
    command = ["systemd-socket-activate", "-l", f"127.0.0.1:{http}", "-l", f"127.0.0.1:{grpc_port}"]
    command += ["--fdname=http:grpc", "-E", "PYTHONPATH"]
    command += [sys.executable, "-m", "penstock", "serve", "app.py"]
    with (folder / "log").open("w") as log, activated(command, folder, log) as process:
        until(lambda: "Listening on" in (folder / "log").read_text(), "systemd to listen")
        assert get(f"http://127.0.0.1:{http}", "/v2/health/ready").status == 200
        assert is_live(f"127.0.0.1:{grpc_port}")
        process.terminate()
        assert process.wait(60) == 0, (folder / "log").read_text()


@contextmanager
def activated(command: list[str], folder: Path, log: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()
