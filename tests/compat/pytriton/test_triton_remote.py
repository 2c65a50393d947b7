"""`RemoteTriton`: callables of one process behind the server of another one."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live import ROW, answers, ask, bind, in_thread, triton, url
from test_triton_process import environment

from http_by_hand import get, infer, post
from penstock import AlreadyExists
from penstock.compat.pytriton._server import remote
from penstock.compat.pytriton.client.exceptions import PyTritonClientInvalidUrlError
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.exceptions import PyTritonInvalidOperationError, PyTritonUnrecoverableError
from penstock.compat.pytriton.triton import RemoteTriton, TritonBase
from waiting import PATIENCE, until


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_nothing_is_connected_by_itself() -> None:
    remote = RemoteTriton("localhost:8000")
    assert isinstance(remote, TritonBase)
    assert (remote.is_connected(), remote.is_alive()) == (False, True)
    bind(remote)
    assert not remote.is_alive()
    assert (remote.stop(), remote.stop(), remote._workspace.exists()) == (True, False, False)


@pytest.mark.parametrize("address", ["https://localhost", "ftp://localhost", 8000])
def test_an_invalid_address_is_rejected(address: Any) -> None:
    with pytest.raises(PyTritonClientInvalidUrlError):
        RemoteTriton(address)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_models_are_attached_and_detached(protocol: str) -> None:
    """No token is needed, and other models keep serving."""
    with triton() as server:
        bind(server, "own")
        with RemoteTriton(url(server, protocol)) as one, RemoteTriton(url(server, protocol)) as other:
            assert one.is_connected()
            bind(one, "one")
            bind(other, "other")
            assert (one.is_alive(), answers(server, "one"), answers(server, "other")) == (True, True, True)
            assert one.stop()
            assert ask(server, "one").status == 404
            assert (answers(server, "other"), answers(server, "own")) == (True, True)
        assert (ask(server, "other").status, server.is_alive(), answers(server, "own")) == (404, True, True)


def test_models_are_bound_before_and_after_it_connects() -> None:
    with triton() as server:
        remote = RemoteTriton(url(server))
        bind(remote, "early")
        assert ask(server, "early").status == 404
        remote.connect()
        remote.connect()
        bind(remote, "late", version=3)
        assert (answers(server, "early"), answers(server, "late")) == (True, True)
        assert get(url(server), "/v2/models/late").json()["versions"] == ["3"]
        assert (remote.stop(), remote.stop()) == (True, False)


def test_several_instances_and_streams() -> None:
    @batch
    def pieces(x: Any) -> Any:
        yield {"y": x}
        yield {"y": x * 2}

    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(remote, "many", [batch(lambda x: {"y": x * 2})] * 2)
        bind(remote, "pieces", pieces, decoupled=True)
        assert answers(server, "many")
        stream = post(url(server), "/v2/models/pieces/generate_stream", b'{"x": [1, 2]}').body.decode()
        assert [json.loads(line.removeprefix("data: "))["y"] for line in stream.splitlines() if line] == [
            [1, 2],
            [2, 4],
        ]


def test_a_server_that_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "DEFAULT_TRITON_STARTUP_TIMEOUT_S", 0.1)
    with pytest.raises(TimeoutError, match=r"^Triton Inference Server is not ready after timeout: "):
        RemoteTriton("localhost:1").connect()


def test_connect_waits_for_the_server() -> None:
    server = triton()
    bind(server, "own")
    server.run()
    address = url(server)
    port = int(address.rpartition(":")[2])
    server.stop()
    remote = RemoteTriton(address)
    bind(remote, "m")
    thread = in_thread(remote.connect)
    with triton(http_port=port) as again:
        thread.join(PATIENCE)
        assert answers(again)
        remote.stop()


def test_names_that_are_taken() -> None:
    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(server, "own")
        with pytest.raises(AlreadyExists):
            bind(remote, "own")
        bind(remote, "other")
        with pytest.raises(PyTritonInvalidOperationError):
            bind(remote, "OTHER")
        assert (answers(server, "own"), answers(server, "other")) == (True, True)


def test_serve_returns_when_the_server_stops() -> None:
    server = triton()
    server.run()
    remote = RemoteTriton(url(server))
    bind(remote)
    thread = in_thread(remote.serve)
    until(remote.is_connected)
    assert answers(server)
    server.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not remote.is_alive()


def test_an_unrecoverable_callable_stops_only_its_own_script() -> None:
    @batch
    def broken(x: Any) -> Any:
        raise PyTritonUnrecoverableError("the GPU is gone")

    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(server, "own")
        bind(remote, "broken", broken)
        answer = infer(url(server), "broken", {"x": ROW})
        assert (answer.status, "the GPU is gone" in answer.error()) == (500, True)
        assert not remote.is_alive()
        until(lambda: ask(server, "broken").status == 404)
        assert (server.is_alive(), answers(server, "own")) == (True, True)


SCRIPT = """
import sys
from live import bind, once_in_serve
from penstock.compat.pytriton.triton import RemoteTriton

with RemoteTriton(sys.argv[1]) as remote:
    bind(remote, sys.argv[2])
    once_in_serve(lambda: print("serving", flush=True))
    remote.serve()
"""


def test_remote_scripts() -> None:
    """One script ends by a signal, one is killed, and the server continues."""
    with triton() as server:
        scripts = [
            subprocess.Popen(
                [sys.executable, "-c", SCRIPT, url(server), name],
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "other")
        ]
        try:
            for script, name in zip(scripts, ("one", "other"), strict=True):
                assert script.stdout is not None
                assert script.stdout.readline() == "serving\n"
                assert answers(server, name)
            scripts[0].send_signal(signal.SIGTERM)
            assert scripts[0].wait(PATIENCE) == 0
            assert (ask(server, "one").status, answers(server, "other")) == (404, True)
            scripts[1].kill()
            scripts[1].wait(PATIENCE)
            until(lambda: ask(server, "other").status == 404)
            assert server.is_alive()
        finally:
            for script in scripts:
                script.kill()
                script.communicate()


def test_a_server_without_an_attach_socket_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock").mkdir(mode=0o755)
    (tmp_path / "penstock").chmod(0o755)
    server = triton()
    bind(server)
    with caplog.at_level(logging.WARNING, "pytriton"):
        server.run()
    assert "RemoteTriton cannot attach models: attach: the folder" in caplog.text
    assert answers(server)
    assert server.stop()
