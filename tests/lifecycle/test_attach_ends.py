"""The end of attached models: a detach, a dead process, a stopped server; and which requests fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attaching_process import TESTS, Attaching
from http_by_hand import HttpResponse, get, infer
from models import attached_models as theirs
from penstock import Server, _core, attach, model
from serving_process import MODELS, Serving
from waiting import Gate, at_once, until

ONE = {"x": np.zeros((1, 1), np.float32)}
GONE = "the process that attached it is gone"


@model(**theirs.FLOATS)
def own(x: Any) -> Any:
    return x


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/attach.sock"


@pytest.fixture
def server(address: str) -> Iterator[Server]:
    with Server(own, http="127.0.0.1:0", grpc=None, attach=address) as running:
        yield running


def status(url: str, name: str) -> int:
    return get(url, f"/v2/models/{name}/ready").status


def has_gone(url: str, name: str) -> bool:
    return until(lambda: status(url, name) == 404, f"{name} to be gone")


def flat(name: str) -> dict[str, Any]:
    return {"x": np.zeros(1, np.float32)} if name in ("never", "forking", "own") else ONE


def test_detach_finishes_requests_in_flight(server: Server, address: str) -> None:
    gate = Gate()

    @model(**theirs.ROWS)
    def gated(x: Any) -> Any:
        gate.enter()
        return x

    attached = attach(address, gated)
    url = server.http_url
    [response] = at_once([lambda: infer(url, "gated", ONE)])
    gate.await_entered()
    [detached] = at_once([attached.detach])
    has_gone(url, "gated")
    assert not detached.done()
    gate.open()
    assert response.result().status == 200
    assert detached.result() is True
    assert (attached.alive, attached.reason) == (False, "it was detached")
    assert attached.wait(0)


def test_detach_timeout_cuts_off_requests_and_reports_them(server: Server, address: str) -> None:
    gate = Gate()

    @model(**theirs.ROWS)
    def gated(x: Any) -> Any:
        gate.enter()
        return x

    attached = attach(address, gated)
    [response] = at_once([lambda: infer(server.http_url, "gated", ONE)])
    gate.await_entered()
    assert attached.detach(0.05) is False
    cut = response.result()
    assert (cut.status, cut.error()) == (500, f"model 'gated': {GONE}")
    assert attached.stuck() == ["gated (version 1)"]
    gate.open()
    until(lambda: attached.stuck() == [])


@pytest.mark.fault("killed in compute")
def test_killed_process_fails_only_its_own_batch(server: Server, address: str) -> None:
    url = server.http_url
    with Attaching(address, "never") as dying, attach(address, theirs.double):
        [response] = at_once([lambda: infer(url, "never", flat("never"))])
        dying.await_line("computing")
        os.kill(dying.pid, signal.SIGKILL)
        failed = response.result()
        assert (failed.status, failed.error()) == (500, f"model 'never': {GONE}")
        has_gone(url, "never")
        assert infer(url, "double", ONE).status == infer(url, "own", flat("own")).status == 200


@pytest.mark.fault("killed with a fork alive")
def test_forked_child_does_not_keep_the_models_attached(server: Server, address: str) -> None:
    with Attaching(address, "forking"):
        began = time.monotonic()
        failed = infer(server.http_url, "forking", flat("forking"))
        assert (failed.status, failed.error()) == (500, f"model 'forking': {GONE}")
        has_gone(server.http_url, "forking")
        assert time.monotonic() - began < 10, "waited for the forked child, which ends after 15 s"


@pytest.mark.fault("malformed response")
def test_invalid_response_frame_detaches_all_models_of_the_process(server: Server, address: str) -> None:
    url = server.http_url
    with Attaching(address, "talking", "double") as talking, attach(address, theirs.slow):
        assert infer(url, "talking", flat("own")).status == 200
        failed = infer(url, "talking", {"x": np.ones(1, np.float32)})
        assert (failed.status, failed.error()) == (
            500,
            "model 'talking': the process that attached it broke the protocol",
        )
        has_gone(url, "talking")
        has_gone(url, "double")
        assert talking.read_until_exit() == "ended: the server has hung up on an instance of model 'talking'"
        assert infer(url, "slow", ONE).status == 200


def test_kill_and_reattach_under_load_answers_every_request(server: Server, address: str) -> None:
    url, stop = server.http_url, threading.Event()
    responses: list[HttpResponse] = []

    def call() -> int:
        count = 0
        while not stop.is_set():
            responses.append(infer(url, "slow", ONE))
            count += 1
        return count

    with Attaching(address, "slow") as first:
        clients = at_once([call] * 8)
        until(lambda: sum(one.status == 200 for one in responses) > 20, "some responses")
        os.kill(first.pid, signal.SIGKILL)
        has_gone(url, "slow")
        before = len(responses)
        with Attaching(address, "slow") as second:
            until(lambda: sum(one.status == 200 for one in responses[before:]) > 20, "responses of the second process")
            stop.set()
            assert sum(client.result() for client in clients) == len(responses)
            assert infer(url, "slow", ONE).array("y") == [[second.pid]]
    bad = [one for one in responses if one.status != 200]
    reports = {(one.status, one.error()) for one in bad}
    assert reports <= {
        (500, f"model 'slow': {GONE}"),
        (503, f"model 'slow': {GONE}"),
        (503, "model 'slow' is not ready"),
        (503, "model 'slow' is shutting down"),
        (503, "model 'slow' is not loaded"),
        (404, "unknown model 'slow'"),
    }


def test_waiting_requests_fail_when_the_process_is_killed(server: Server, address: str) -> None:
    url = server.http_url
    with Attaching(address, "never") as dying:
        responses = at_once([lambda: infer(url, "never", flat("never")) for _ in range(5)])
        dying.await_line("computing")
        until(lambda: 'penstock_queue_depth{model="never",version="1"} 4' in get(url, "/metrics").body.decode())
        os.kill(dying.pid, signal.SIGKILL)
        errors = sorted((one.result().status, one.result().error()) for one in responses)
    assert errors == [(500, f"model 'never': {GONE}")] + [(503, f"model 'never': {GONE}")] * 4


def test_name_can_be_attached_again_after_detach(server: Server, address: str) -> None:
    for _ in range(3):
        with Attaching(address, "double") as dying:
            assert infer(server.http_url, "double", ONE).status == 200
            os.kill(dying.pid, signal.SIGKILL)
            has_gone(server.http_url, "double")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with attach(address, theirs.double):
            assert infer(server.http_url, "double", ONE).status == 200
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all descriptors to be closed")


def test_clean_exit_detaches_the_model(server: Server, address: str) -> None:
    code = f"import penstock; from models.attached_models import slow; penstock.attach({address!r}, slow); print('end')"
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    has_gone(server.http_url, "slow")


def test_signal_drains_and_ends_the_attached_process(server: Server, address: str) -> None:
    with Attaching(address, "double") as leaving:
        leaving.process.send_signal(signal.SIGTERM)
        assert leaving.read_until_exit() == "ended: it was detached"
    has_gone(server.http_url, "double")


def test_server_stop_drains_attached_models_and_reports_the_reason(address: str) -> None:
    gate, closed = Gate(), []

    class Gated:
        def __call__(self, x: Any) -> Any:
            gate.enter()
            return x

        def close(self) -> None:
            closed.append(1)

    with Server(own, http="127.0.0.1:0", grpc=None, attach=address) as server:
        attached = attach(address, model(name="gated", **theirs.ROWS)(Gated))
        [response] = at_once([lambda: infer(server.http_url, "gated", ONE)])
        gate.await_entered()
        [stopped] = at_once([server.stop])
        until(lambda: not os.path.exists(address.removeprefix("unix:")), "the socket to be removed")
        assert attached.alive
        gate.open()
        assert (response.result().status, stopped.result()) == (200, [])
        assert attached.wait(10)
        assert (attached.alive, attached.reason, closed) == (False, "the server has stopped", [1])
    with pytest.raises(Exception, match="nothing can be attached any more: the server has stopped"):
        attached.add(theirs.double)


def test_killed_server_is_detected_at_once(address: str) -> None:
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", "off", "--attach", address) as serving:
        attached = attach(address, theirs.slow)
        assert infer(serving.http, "slow", ONE).status == 200
        serving.signal(signal.SIGKILL)
        assert attached.wait(10)
        assert attached.reason == "the server is gone"


@pytest.mark.fault("killed while it loads")
def test_process_killed_while_loading_leaves_nothing_behind(server: Server, address: str) -> None:
    code = """
import sys, time, numpy as np, penstock
from models.attached_models import FLOATS
class Loads:
    def __init__(self): print("loading", flush=True); time.sleep(600)
    def __call__(self, x): return x
penstock.attach(sys.argv[1], penstock.model(name="loads", **FLOATS)(Loads))
"""
    process = subprocess.Popen([sys.executable, "-c", code, address], cwd=TESTS, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout:
        assert process.stdout.readline() == "loading\n"
    process.kill()
    process.wait()

    def free() -> bool:
        try:
            attach(address, theirs.double.with_options(name="loads")).detach()
        except ValueError:
            return False
        return True

    until(free, "the name to be free")
    assert status(server.http_url, "own") == 200


@pytest.mark.fault("malformed control message")
def test_malformed_attach_messages_close_only_their_connection(server: Server, address: str) -> None:
    for nonsense in (b"", b"\x05\0\0\0\0\0\0\0[1,2]", b"\xff" * 64, b"\x0c\0\0\0\0\0\0\0" + b'{"parts":[]}'):
        channel = _core.ControlChannel.connect(address.removeprefix("unix:"))
        channel.send(nonsense, [])
        with pytest.raises(EOFError):
            channel.receive(10.0)
    for request in (
        {"do": "attach", "penstock": "0.0.0", "models": []},
        {"do": "attach", "penstock": _core.version},
        {"do": "attach", "penstock": _core.version, "models": [7]},
    ):
        assert "error" in _send(address, request)
    assert infer(server.http_url, "own", flat("own")).status == 200


def _send(address: str, request: dict[str, Any]) -> dict[str, Any]:
    from penstock._attach import messages

    channel = _core.ControlChannel.connect(address.removeprefix("unix:"))
    messages.send(channel, request)
    heard = messages.receive(channel, 10.0)
    assert heard is not None
    return heard[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")
def test_other_users_cannot_attach_or_impersonate_the_server() -> None:
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
import penstock
from models.attached_models import double
os.setuid(65534)
try:
    penstock.attach(sys.argv[1], double, timeout=0)
except penstock.Unavailable as error:
    print(error)
"""
    reports = []
    # Not in a folder of pytest, because other users may not enter it.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "attach.sock")
        Path(folder).chmod(0o755)
        with Server(own, http="127.0.0.1:0", grpc=None, attach=f"unix:{path}") as server:
            for mode in (0o600, 0o666):
                path.chmod(mode)
                command = [sys.executable, "-c", code, f"unix:{path}"]
                done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
                reports.append(done.stdout or done.stderr)
            assert infer(server.http_url, "own", flat("own")).status == 200
    assert "Permission denied" in reports[0]
    assert "the server there is of another user" in reports[1]


def test_attach_command_serves_a_file_until_interrupted(address: str) -> None:
    with Serving("--http", "127.0.0.1:0", "--grpc", "off", "--attach", address) as serving:
        assert f"attach  {address}" in serving.out
        command = [sys.executable, "-m", "penstock", "attach", address]
        options: dict[str, Any] = {"cwd": MODELS, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "double.py"], **options) as attaching:
            assert attaching.stdout
            assert attaching.stdout.readline() == f"penstock: attached to {address}: double (version 1)\n"
            assert status(serving.http, "double") == 200
            taken = subprocess.run([*command, "double.py"], **options, check=False)
            assert (taken.returncode, taken.stderr) == (
                1,
                "penstock: error: model 'double' version '1' is attached already\n",
            )
            attaching.send_signal(signal.SIGTERM)
            _, reports = attaching.communicate(timeout=30)
            assert attaching.returncode == 0
            assert reports.startswith("penstock: detaching: requests have 30 s to finish")
        has_gone(serving.http, "double")
        with subprocess.Popen([*command, "same.py"], **options) as attaching:
            assert attaching.stdout
            attaching.stdout.readline()
            serving.signal(signal.SIGTERM)
            _, reports = attaching.communicate(timeout=30)
            assert (attaching.returncode, reports) == (0, "penstock: the server has stopped\n")
        assert serving.exit_status() == 0
    failed = subprocess.run([*command, "same.py", "--timeout", "0"], **options, check=False)
    assert (failed.returncode, failed.stderr) == (
        1,
        f"penstock: error: attach: {address}: no server is there that was started with attach\n",
    )


@pytest.mark.fault("SIGTERM while held")
@pytest.mark.parametrize(("timeout", "signals"), [(0.3, 1), (600, 2)], ids=["deadline", "second signal"])
def test_attach_command_handles_signals_while_a_handler_holds_the_gil(
    timeout: float, signals: int, server: Server, address: str, tmp_path: Path
) -> None:
    code = "import sys; from penstock._cli import attach, main; attach._DRAIN = {}; {}"
    command = [sys.executable, "-c", code.format(timeout, "sys.exit(main.main(sys.argv[1:]))"), "attach", address]
    (gate := tmp_path / "gate").mkdir()
    with subprocess.Popen(
        [*command, "holding.py"],
        cwd=MODELS,
        env={**os.environ, "GATE": str(gate)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as attaching:
        try:
            assert attaching.stdout
            assert attaching.stdout.readline().startswith("penstock: attached to ")
            before = len(list(gate.iterdir()))
            [request] = at_once([lambda: infer(server.http_url, "Holding", {"x": np.array([1000], np.float32)})])
            until(lambda: len(list(gate.iterdir())) > before, "a call that holds the GIL")
            assert status(server.http_url, "Holding") == 200
            attaching.send_signal(signal.SIGTERM)
            has_gone(server.http_url, "Holding")
            assert not request.done()
            for _ in range(signals - 1):
                attaching.send_signal(signal.SIGTERM)
            _, reports = attaching.communicate(timeout=30)
        finally:
            attaching.kill()
    assert (attaching.returncode, reports.splitlines()) == (
        3,
        [
            "penstock: left without waiting for what holds the interpreter",
            "penstock: cut off: requests that have not finished",
        ],
    )
    cut = request.result()
    assert (cut.status, cut.error()) == (500, f"model 'Holding': {GONE}")
