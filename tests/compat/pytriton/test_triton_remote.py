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
from live import ROW, bind, in_thread, infer_row, is_serving, triton, url
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
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_binding_does_not_connect() -> None:
    remote = RemoteTriton("localhost:8000")
    assert isinstance(remote, TritonBase)
    assert (remote.is_connected(), remote.is_alive()) == (False, True)
    bind(remote)
    assert not remote.is_alive()
    assert (remote.stop(), remote.stop(), remote._workspace.exists()) == (True, False, False)


@pytest.mark.parametrize("address", ["https://localhost", "ftp://localhost", 8000])
def test_invalid_address_is_rejected(address: Any) -> None:
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
            assert (one.is_alive(), is_serving(server, "one"), is_serving(server, "other")) == (True, True, True)
            assert one.stop()
            assert infer_row(server, "one").status == 404
            assert (is_serving(server, "other"), is_serving(server, "own")) == (True, True)
        assert (infer_row(server, "other").status, server.is_alive(), is_serving(server, "own")) == (404, True, True)


def test_models_are_bound_before_and_after_connect() -> None:
    with triton() as server:
        remote = RemoteTriton(url(server))
        bind(remote, "early")
        assert infer_row(server, "early").status == 404
        remote.connect()
        remote.connect()
        bind(remote, "late", version=3)
        assert (is_serving(server, "early"), is_serving(server, "late")) == (True, True)
        assert get(url(server), "/v2/models/late").json()["versions"] == ["3"]
        assert (remote.stop(), remote.stop()) == (True, False)


def test_instances_and_streams_are_attached() -> None:
    @batch
    def chunks(x: Any) -> Any:
        yield {"y": x}
        yield {"y": x * 2}

    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(remote, "many", [batch(lambda x: {"y": x * 2})] * 2)
        bind(remote, "chunks", chunks, decoupled=True)
        assert is_serving(server, "many")
        stream = post(url(server), "/v2/models/chunks/generate_stream", b'{"x": [1, 2]}').body.decode()
        assert [json.loads(line.removeprefix("data: "))["y"] for line in stream.splitlines() if line] == [
            [1, 2],
            [2, 4],
        ]


def test_missing_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with triton(http_port=port) as restarted:
        thread.join(PATIENCE)
        assert is_serving(restarted)
        remote.stop()


def test_duplicate_names_are_rejected() -> None:
    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(server, "own")
        with pytest.raises(AlreadyExists):
            bind(remote, "own")
        bind(remote, "other")
        with pytest.raises(PyTritonInvalidOperationError):
            bind(remote, "OTHER")
        assert (is_serving(server, "own"), is_serving(server, "other")) == (True, True)


def test_serve_returns_when_the_server_stops() -> None:
    server = triton()
    server.run()
    remote = RemoteTriton(url(server))
    bind(remote)
    thread = in_thread(remote.serve)
    until(remote.is_connected)
    assert is_serving(server)
    server.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not remote.is_alive()


def test_unrecoverable_error_stops_only_its_script() -> None:
    @batch
    def broken(x: Any) -> Any:
        raise PyTritonUnrecoverableError("the GPU is lost")

    with triton() as server, RemoteTriton(url(server)) as remote:
        bind(server, "own")
        bind(remote, "broken", broken)
        response = infer(url(server), "broken", {"x": ROW})
        assert (response.status, "the GPU is lost" in response.error()) == (500, True)
        assert not remote.is_alive()
        until(lambda: infer_row(server, "broken").status == 404)
        assert (server.is_alive(), is_serving(server, "own")) == (True, True)


SCRIPT = """
import sys
from live import bind, once_in_serve
from penstock.compat.pytriton.triton import RemoteTriton

with RemoteTriton(sys.argv[1]) as remote:
    bind(remote, sys.argv[2])
    once_in_serve(lambda: print("serving", flush=True))
    remote.serve()
"""


def test_remote_scripts_detach_when_they_end() -> None:
    """Ends one script by a signal and kills the other; the server continues."""
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
                assert is_serving(server, name)
            scripts[0].send_signal(signal.SIGTERM)
            assert scripts[0].wait(PATIENCE) == 0
            assert (infer_row(server, "one").status, is_serving(server, "other")) == (404, True)
            scripts[1].kill()
            scripts[1].wait(PATIENCE)
            until(lambda: infer_row(server, "other").status == 404)
            assert server.is_alive()
        finally:
            for script in scripts:
                script.kill()
                script.communicate()


def test_server_without_an_attach_socket_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock").mkdir(mode=0o755)
    (tmp_path / "penstock").chmod(0o755)
    server = triton()
    bind(server)
    with caplog.at_level(logging.WARNING, "pytriton"):
        server.run()
    assert "RemoteTriton cannot attach models: attach: the folder" in caplog.text
    assert is_serving(server)
    assert server.stop()
