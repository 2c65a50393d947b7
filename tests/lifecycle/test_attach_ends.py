"""What ends an attached model: its process leaves or dies, or the server stops; and whom it costs what."""

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
from http_by_hand import Answer, get, infer
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
def place(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/attach.sock"


@pytest.fixture
def server(place: str) -> Iterator[Server]:
    with Server(own, http="127.0.0.1:0", grpc=None, attach=place) as running:
        yield running


def status(url: str, name: str) -> int:
    return get(url, f"/v2/models/{name}/ready").status


def has_gone(url: str, name: str) -> bool:
    return until(lambda: status(url, name) == 404, f"{name} to be gone")


def flat(name: str) -> dict[str, Any]:
    return {"x": np.zeros(1, np.float32)} if name in ("never", "forking", "own") else ONE


def test_a_detach_finishes_what_is_under_way(server: Server, place: str) -> None:
    gate = Gate()

    @model(**theirs.ROWS)
    def gated(x: Any) -> Any:
        gate.enter()
        return x

    attached = attach(place, gated)
    url = server.http_url
    [answer] = at_once([lambda: infer(url, "gated", ONE)])
    gate.await_entered()
    [detached] = at_once([attached.detach])
    has_gone(url, "gated")
    assert not detached.done()
    gate.open()
    assert answer.result().status == 200
    assert detached.result() is True
    assert (attached.alive, attached.reason) == (False, "it was detached")
    assert attached.wait(0)


def test_a_detach_that_takes_too_long_cuts_off_and_says_so(server: Server, place: str) -> None:
    gate = Gate()

    @model(**theirs.ROWS)
    def gated(x: Any) -> Any:
        gate.enter()
        return x

    attached = attach(place, gated)
    [answer] = at_once([lambda: infer(server.http_url, "gated", ONE)])
    gate.await_entered()
    assert attached.detach(0.05) is False
    cut = answer.result()
    assert (cut.status, cut.error()) == (500, f"model 'gated': {GONE}")
    assert attached.stuck() == ["gated (version 1)"]
    gate.open()
    until(lambda: attached.stuck() == [])


@pytest.mark.fault("killed in compute")
def test_a_process_that_is_killed_fails_its_batch_at_once_and_costs_nobody_else(server: Server, place: str) -> None:
    url = server.http_url
    with Attaching(place, "never") as dying, attach(place, theirs.double):
        [answer] = at_once([lambda: infer(url, "never", flat("never"))])
        dying.await_said("computing")
        os.kill(dying.pid, signal.SIGKILL)
        failed = answer.result()
        assert (failed.status, failed.error()) == (500, f"model 'never': {GONE}")
        has_gone(url, "never")
        assert infer(url, "double", ONE).status == infer(url, "own", flat("own")).status == 200


@pytest.mark.fault("killed with a copy alive")
def test_a_copy_of_the_process_does_not_keep_its_models(server: Server, place: str) -> None:
    with Attaching(place, "forking"):
        began = time.monotonic()
        failed = infer(server.http_url, "forking", flat("forking"))
        assert (failed.status, failed.error()) == (500, f"model 'forking': {GONE}")
        has_gone(server.http_url, "forking")
        assert time.monotonic() - began < 10, "its copy, which ends after 15 s, was waited for"


@pytest.mark.fault("answers nonsense")
def test_a_process_that_answers_nonsense_loses_all_its_models(server: Server, place: str) -> None:
    url = server.http_url
    with Attaching(place, "talking", "double") as talking, attach(place, theirs.slow):
        assert infer(url, "talking", flat("own")).status == 200
        failed = infer(url, "talking", {"x": np.ones(1, np.float32)})
        assert (failed.status, failed.error()) == (
            500,
            "model 'talking': the process that attached it broke the protocol",
        )
        has_gone(url, "talking")
        has_gone(url, "double")
        assert talking.ended() == "ended: the server has hung up on an instance of model 'talking'"
        assert infer(url, "slow", ONE).status == 200


def test_under_load_every_request_is_answered_when_it_is_killed_and_attached_again(server: Server, place: str) -> None:
    url, stop = server.http_url, threading.Event()
    answers: list[Answer] = []

    def call() -> int:
        count = 0
        while not stop.is_set():
            answers.append(infer(url, "slow", ONE))
            count += 1
        return count

    with Attaching(place, "slow") as first:
        callers = at_once([call] * 8)
        until(lambda: sum(one.status == 200 for one in answers) > 20, "some answers")
        os.kill(first.pid, signal.SIGKILL)
        has_gone(url, "slow")
        before = len(answers)
        with Attaching(place, "slow") as second:
            until(lambda: sum(one.status == 200 for one in answers[before:]) > 20, "answers of the second one")
            stop.set()
            assert sum(caller.result() for caller in callers) == len(answers)
            assert infer(url, "slow", ONE).array("y") == [[second.pid]]
    bad = [one for one in answers if one.status != 200]
    said = {(one.status, one.error()) for one in bad}
    assert said <= {
        (500, f"model 'slow': {GONE}"),
        (503, f"model 'slow': {GONE}"),
        (503, "model 'slow' is not ready"),
        (503, "model 'slow' is shutting down"),
        (503, "model 'slow' is not loaded"),
        (404, "unknown model 'slow'"),
    }


def test_those_that_wait_are_told_when_it_is_killed(server: Server, place: str) -> None:
    url = server.http_url
    with Attaching(place, "never") as dying:
        answers = at_once([lambda: infer(url, "never", flat("never")) for _ in range(5)])
        dying.await_said("computing")
        until(lambda: 'penstock_queue_depth{model="never",version="1"} 4' in get(url, "/metrics").body.decode())
        os.kill(dying.pid, signal.SIGKILL)
        told = sorted((one.result().status, one.result().error()) for one in answers)
    assert told == [(500, f"model 'never': {GONE}")] + [(503, f"model 'never': {GONE}")] * 4


def test_a_name_can_be_attached_again(server: Server, place: str) -> None:
    for _ in range(3):
        with Attaching(place, "double") as dying:
            assert infer(server.http_url, "double", ONE).status == 200
            os.kill(dying.pid, signal.SIGKILL)
            has_gone(server.http_url, "double")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with attach(place, theirs.double):
            assert infer(server.http_url, "double", ONE).status == 200
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all descriptors to be closed")


def test_a_process_that_ends_well_detaches_by_itself(server: Server, place: str) -> None:
    code = f"import penstock; from models.attached_models import slow; penstock.attach({place!r}, slow); print('end')"
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    has_gone(server.http_url, "slow")


def test_a_signal_can_be_the_end_of_a_process_that_drains(server: Server, place: str) -> None:
    with Attaching(place, "double") as leaving:
        leaving.process.send_signal(signal.SIGTERM)
        assert leaving.ended() == "ended: it was detached"
    has_gone(server.http_url, "double")


def test_a_server_that_stops_drains_and_says_so(place: str) -> None:
    gate, closed = Gate(), []

    class Gated:
        def __call__(self, x: Any) -> Any:
            gate.enter()
            return x

        def close(self) -> None:
            closed.append(1)

    with Server(own, http="127.0.0.1:0", grpc=None, attach=place) as server:
        attached = attach(place, model(name="gated", **theirs.ROWS)(Gated))
        [answer] = at_once([lambda: infer(server.http_url, "gated", ONE)])
        gate.await_entered()
        [stopped] = at_once([server.stop])
        until(lambda: not os.path.exists(place.removeprefix("unix:")), "nobody to be let in any more")
        assert attached.alive
        gate.open()
        assert (answer.result().status, stopped.result()) == (200, [])
        assert attached.wait(10)
        assert (attached.alive, attached.reason, closed) == (False, "the server has stopped", [1])
    with pytest.raises(Exception, match="nothing can be attached any more: the server has stopped"):
        attached.add(theirs.double)


def test_a_server_that_is_killed_is_seen_at_once(place: str) -> None:
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", "off", "--attach", place) as serving:
        attached = attach(place, theirs.slow)
        assert infer(serving.http, "slow", ONE).status == 200
        serving.signal(signal.SIGKILL)
        assert attached.wait(10)
        assert attached.reason == "the server is gone"


@pytest.mark.fault("killed while it loads")
def test_one_that_leaves_while_it_loads_leaves_nothing_behind(server: Server, place: str) -> None:
    code = """
import sys, time, numpy as np, penstock
from models.attached_models import FLOATS
class Loads:
    def __init__(self): print("loading", flush=True); time.sleep(600)
    def __call__(self, x): return x
penstock.attach(sys.argv[1], penstock.model(name="loads", **FLOATS)(Loads))
"""
    process = subprocess.Popen([sys.executable, "-c", code, place], cwd=TESTS, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout:
        assert process.stdout.readline() == "loading\n"
    process.kill()
    process.wait()

    def free() -> bool:
        try:
            attach(place, theirs.double.with_options(name="loads")).detach()
        except ValueError:
            return False
        return True

    until(free, "the name to be free")
    assert status(server.http_url, "own") == 200


@pytest.mark.fault("says nonsense")
def test_a_line_on_which_nonsense_is_said_ends_and_harms_nobody(server: Server, place: str) -> None:
    for nonsense in (b"", b"\x05\0\0\0\0\0\0\0[1,2]", b"\xff" * 64, b"\x0c\0\0\0\0\0\0\0" + b'{"parts":[]}'):
        line = _core.ControlChannel.connect(place.removeprefix("unix:"))
        line.send(nonsense, [])
        with pytest.raises(EOFError):
            line.receive(10.0)
    for asked in (
        {"do": "attach", "penstock": "0.0.0", "models": []},
        {"do": "attach", "penstock": _core.version},
        {"do": "attach", "penstock": _core.version, "models": [7]},
    ):
        assert "error" in _asked(place, asked)
    assert infer(server.http_url, "own", flat("own")).status == 200


def _asked(place: str, asked: dict[str, Any]) -> dict[str, Any]:
    from penstock._attach import messages

    line = _core.ControlChannel.connect(place.removeprefix("unix:"))
    messages.send(line, asked)
    heard = messages.receive(line, 10.0)
    assert heard is not None
    return heard[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_can_neither_attach_nor_pretend_to_be_the_server() -> None:
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
    said = []
    # Not in a folder of pytest's, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "attach.sock")
        Path(folder).chmod(0o755)
        with Server(own, http="127.0.0.1:0", grpc=None, attach=f"unix:{path}") as server:
            for mode in (0o600, 0o666):
                path.chmod(mode)
                command = [sys.executable, "-c", code, f"unix:{path}"]
                done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
                said.append(done.stdout or done.stderr)
            assert infer(server.http_url, "own", flat("own")).status == 200
    assert "Permission denied" in said[0]
    assert "the server there is of another user" in said[1]


def test_the_command_attaches_a_file_until_it_is_told_to_end(place: str) -> None:
    with Serving("--http", "127.0.0.1:0", "--grpc", "off", "--attach", place) as serving:
        assert f"attach  {place}" in serving.out
        command = [sys.executable, "-m", "penstock", "attach", place]
        options: dict[str, Any] = {"cwd": MODELS, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "double.py"], **options) as attaching:
            assert attaching.stdout
            assert attaching.stdout.readline() == f"penstock: attached to {place}: double (version 1)\n"
            assert status(serving.http, "double") == 200
            taken = subprocess.run([*command, "double.py"], **options, check=False)
            assert (taken.returncode, taken.stderr) == (
                1,
                "penstock: error: model 'double' version '1' is attached already\n",
            )
            attaching.send_signal(signal.SIGTERM)
            _, said = attaching.communicate(timeout=30)
            assert attaching.returncode == 0
            assert said.startswith("penstock: detaching: requests have 30 s to finish")
        has_gone(serving.http, "double")
        with subprocess.Popen([*command, "same.py"], **options) as attaching:
            assert attaching.stdout
            attaching.stdout.readline()
            serving.signal(signal.SIGTERM)
            _, said = attaching.communicate(timeout=30)
            assert (attaching.returncode, said) == (0, "penstock: the server has stopped\n")
        assert serving.exit_status() == 0
    nowhere = subprocess.run([*command, "same.py", "--timeout", "0"], **options, check=False)
    assert (nowhere.returncode, nowhere.stderr) == (
        1,
        f"penstock: error: attach: {place}: no server is there that was started with attach\n",
    )


@pytest.mark.fault("SIGTERM while held")
@pytest.mark.parametrize(("timeout", "signals"), [(0.3, 1), (600, 2)], ids=["deadline", "second signal"])
def test_the_command_handles_signals_while_a_handler_holds_the_interpreter(
    timeout: float, signals: int, server: Server, place: str, tmp_path: Path
) -> None:
    code = "import sys; from penstock._cli import attach, main; attach._DRAIN = {}; {}"
    command = [sys.executable, "-c", code.format(timeout, "sys.exit(main.main(sys.argv[1:]))"), "attach", place]
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
            [asked] = at_once([lambda: infer(server.http_url, "Holding", {"x": np.array([1000], np.float32)})])
            until(lambda: len(list(gate.iterdir())) > before, "a call that holds the interpreter")
            assert status(server.http_url, "Holding") == 200
            attaching.send_signal(signal.SIGTERM)
            has_gone(server.http_url, "Holding")
            assert not asked.done()
            for _ in range(signals - 1):
                attaching.send_signal(signal.SIGTERM)
            _, said = attaching.communicate(timeout=30)
        finally:
            attaching.kill()
    assert (attaching.returncode, said.splitlines()) == (
        3,
        [
            "penstock: left without waiting for what holds the interpreter",
            "penstock: cut off: requests that have not finished",
        ],
    )
    cut = asked.result()
    assert (cut.status, cut.error()) == (500, f"model 'Holding': {GONE}")
