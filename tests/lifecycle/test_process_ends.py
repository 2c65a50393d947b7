"""Instances that are processes, and what ends one of them: whom it costs what, and what comes after."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, metric_at
from models import in_processes
from penstock import HandlerError, LoadError, Processes, Server, model
from penstock._spec.instances import processors
from penstock.testing import Client
from serving_process import Serving
from waiting import at_once, until

PORTS = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
X = np.zeros(1, np.float32)

ENDS = [
    pytest.param(1, "its process exited with code 3", "exited", marks=pytest.mark.fault("os._exit")),
    # What the kernel sends when memory runs out.
    pytest.param(2, "its process was killed by SIGKILL", "killed", marks=pytest.mark.fault("killed for memory")),
    pytest.param(3, "its process was killed by SIGSEGV", "killed", marks=pytest.mark.fault("segfault")),
    (7, "its process was killed by SIGABRT", "killed"),
    (10, "its process exited with code 4", "exited"),
    (4, "its process did not answer within 2s and was killed", "hung"),
    (5, "its process broke the protocol and was killed", "broken"),
    (6, "its process broke the protocol and was killed", "broken"),
]


def children() -> set[int]:
    """The processes that this one has started and not seen the end of."""
    found = Path(f"/proc/self/task/{os.getpid()}/children")
    listed = [path.read_text() for path in Path("/proc/self/task").glob("*/children")] or [found.read_text()]
    return {int(number) for text in listed for number in text.split()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def regions() -> int:
    """How many mappings of shared regions this process has."""
    return Path("/proc/self/maps").read_text().count("memfd:penstock")


def is_ready(client: Client, name: str) -> bool:
    return client.get(f"/v2/models/{name}/ready").status == 200


def of(number: float, *more: float) -> dict[str, Any]:
    return {"x": np.array([number, *more], np.float32)}


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    with Server(in_processes.fragile, http="127.0.0.1:0", grpc=None) as server:
        yield server


@pytest.mark.parametrize(("what", "text", "reason"), ENDS)
def test_the_end_of_a_process_fails_its_batch_at_once_and_the_next_is_right(
    fragile: Server, what: int, text: str, reason: str
) -> None:
    url = fragile.http_url
    labels = {"model": "fragile", "version": "1", "reason": reason}
    before = metric_at(url, "penstock_restarts_total", **labels)
    [pid] = infer(url, "fragile", of(0)).array("y").tolist()
    began = time.monotonic()
    answer = infer(url, "fragile", of(what))
    assert (answer.status, answer.error()) == (500, f"model 'fragile': {text}")
    assert time.monotonic() - began < 10
    assert str(int(pid)) not in answer.error()
    assert metric_at(url, "penstock_restarts_total", **labels) == before + 1
    until(lambda: get(url, "/v2/models/fragile/ready").status == 200, "the model to be ready again")
    [other] = infer(url, "fragile", of(0)).array("y").tolist()
    assert other != pid
    assert metric_at(url, "penstock_processes", model="fragile", version="1") == 1


@pytest.mark.parametrize(
    ("what", "text"), [(8, "model 'fragile' failed: RuntimeError"), (9, "model 'fragile' failed: SystemExit")]
)
def test_what_a_handler_raises_ends_no_process(fragile: Server, what: int, text: str) -> None:
    url = fragile.http_url
    pid = infer(url, "fragile", of(0)).array("y").tolist()
    answer = infer(url, "fragile", of(what))
    assert (answer.status, answer.error()) == (500, text)
    assert infer(url, "fragile", of(0)).array("y").tolist() == pid


def test_a_process_that_is_killed_while_it_is_idle_costs_no_request(fragile: Server) -> None:
    url = fragile.http_url
    for _ in range(3):
        [pid] = infer(url, "fragile", of(0)).array("y").tolist()
        os.kill(int(pid), signal.SIGKILL)
        answer = infer(url, "fragile", of(0))
        assert answer.status == 200, answer.error()


def test_the_others_go_on_while_one_crashes() -> None:
    with Server(in_processes.fragile_rows, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        calls = [of(0)] * 10 + [of(1)] + [of(0)] * 10
        rows = [{"x": one["x"].reshape(1, 1)} for one in calls]
        futures = at_once([lambda row=row: infer(url, "fragile_rows", row) for row in rows])
        statuses = [future.result().status for future in futures]
        assert statuses[10] == 500
        # Only those in the same batch share its fate.
        assert statuses.count(500) <= 8
        assert infer(url, "fragile_rows", {"x": np.full((1, 1), 0.5, np.float32)}).status == 200


def test_a_poison_request_is_run_once(tmp_path: Path) -> None:
    log = tmp_path / "log"

    @model(name="m", instances=Processes(2), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        with log.open("a") as lines:
            lines.write(f"{x[0]:g}\n")
        if x[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with Client(m) as client:
        with pytest.raises(HandlerError, match="killed by SIGKILL"):
            client.infer("m", of(1))
        for _ in range(5):
            assert client.infer("m", of(2))["y"].tolist() == [2]
    assert log.read_text().splitlines() == ["1"] + ["2"] * 5


def test_readiness_follows_the_last_process(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()

    @model(name="m", instances=Processes(1), **in_processes.FLOATS)
    class m:
        def __init__(self) -> None:
            while not gate.exists():
                time.sleep(0.01)

        def __call__(self, x: Any) -> Any:
            os._exit(0)

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        assert get(url, "/v2/models/m/ready").status == 200
        gate.unlink()
        answer = infer(url, "m", of(0))
        assert answer.error() == "model 'm': its process exited with code 0"
        assert get(url, "/v2/models/m/ready").status != 200
        refused = infer(url, "m", of(0))
        assert (refused.status, refused.error()) == (503, "model 'm' is not ready")
        gate.touch()
        until(lambda: get(url, "/v2/models/m/ready").status == 200, "the process to be back")


def test_nothing_is_left_behind() -> None:
    with Client(in_processes.double) as client:
        client.infer("double", {"x": np.ones((1, 1), np.float32)})
    before, kept, shared = children(), descriptors(), regions()
    for _ in range(2):
        with Client(in_processes.fragile, in_processes.double) as client:
            with pytest.raises(HandlerError):
                client.infer("fragile", of(1))
            big = client.infer("double", {"x": np.ones((2, 300_000), np.float32)})["y"]
            assert big.sum() == 1_200_000
            until(partial(is_ready, client, "fragile"), "the process to be back")
            assert client.infer("fragile", of(0))
            assert children() > before
        assert children() == before
    del big
    assert (descriptors(), regions()) == (kept, shared)


def test_a_process_that_cannot_load_ends_the_start() -> None:
    @model(name="m", instances=Processes(2), **in_processes.FLOATS)
    class Broken:
        def __init__(self) -> None:
            raise OSError("no such weights")

        def __call__(self, x: Any) -> Any:
            return x

    before = children()
    with pytest.raises(LoadError) as raised, Client(Broken):
        raise AssertionError("it must not start")
    assert str(raised.value) == "model 'm' version '1' could not be loaded: OSError: no such weights"
    assert "in __init__" in str(raised.value.__cause__)
    until(lambda: children() == before, "the processes to end")


def test_a_process_that_dies_while_it_loads_ends_the_start() -> None:
    @model(name="m", instances=Processes(1), **in_processes.FLOATS)
    class Broken:
        def __init__(self) -> None:
            os._exit(5)

        def __call__(self, x: Any) -> Any:
            return x

    with pytest.raises(LoadError, match="could not be loaded: its process exited with code 5"), Client(Broken):
        raise AssertionError("it must not start")


@pytest.mark.parametrize("option", ["max_batches", "max_age", "max_rss"])
def test_recycling_under_load_drops_nothing(option: str) -> None:
    value: dict[str, Any] = {"max_batches": 20} if option == "max_batches" else {"max_age": 0.3}
    if option == "max_rss":
        value = {"max_rss": 1}

    @model(name="m", instances=Processes(2, **value), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        return np.array([x[0], os.getpid()], np.float32)

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url, seen = server.http_url, set()
        replaced = lambda: metric_at(url, "penstock_restarts_total", model="m", version="1", reason=option)  # noqa: E731
        number, end = 0, time.monotonic() + 20
        while replaced() < 2 and time.monotonic() < end:
            for future in at_once([lambda n=n: infer(url, "m", of(n)) for n in range(number, number + 20)]):
                answer = future.result()
                assert answer.status == 200, answer.error()
                seen.add(answer.array("y")[1])
            number += 20
        assert replaced() >= 2
        assert len(seen) >= 3
        assert (
            metric_at(url, "penstock_requests_total", model="m", version="1", protocol="http", outcome="ok") == number
        )


def test_a_batch_that_nobody_waits_for_is_given_up() -> None:
    @model(name="m", instances=Processes(1, abandoned_after=0.3), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        time.sleep(float(x[0]))
        return x

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        late = infer(url, "m", of(60), parameters={"timeout": 50_000})
        assert late.status == 504
        assert infer(url, "m", of(0)).status == 200
        assert metric_at(url, "penstock_restarts_total", model="m", version="1", reason="abandoned") == 1


def test_a_terminal_interrupt_reaches_the_server_alone() -> None:
    code = "import in_processes, penstock; penstock.serve(in_processes.fragile_rows, http='127.0.0.1:0', grpc=None)"
    known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    folder = Path(in_processes.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**known, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    lines = []
    while not (lines and lines[-1].startswith("try ")):
        lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()
    url = next(line.split()[1] for line in lines if line.startswith("http "))
    row = {"x": np.zeros((1, 1), np.float32)}
    futures = at_once([lambda: infer(url, "fragile_rows", row)] * 6)
    until(lambda: metric_at(url, "penstock_in_flight") >= 1, "a request in flight")
    os.killpg(process.pid, signal.SIGINT)
    statuses = {future.result().status for future in futures}
    assert statuses <= {200, 503}
    assert 200 in statuses
    _, said = process.communicate(timeout=20)
    assert process.returncode in (0, 130), said
    assert "Traceback" not in said


def test_its_processes_die_with_a_server_that_is_killed() -> None:
    with Serving("in_processes.py:double", *PORTS) as server:
        owner = server.process.pid
        of_server = lambda: {  # noqa: E731
            int(number)
            for path in Path(f"/proc/{owner}/task").glob("*/children")
            for number in path.read_text().split()
        }
        pids = of_server()
        assert len(pids) == 2
        server.signal(signal.SIGKILL)
        server.exit_status()
        until(lambda: not any(is_alive(pid) for pid in pids), "the processes to end")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_stop_closes_handlers_and_does_not_wait_for_one_that_hangs(tmp_path: Path) -> None:
    @model(name="closes", instances=Processes(2), **in_processes.FLOATS)
    class Closes:
        def __call__(self, x: Any) -> Any:
            return x

        def close(self) -> None:
            (tmp_path / str(os.getpid())).touch()

    @model(name="hangs", instances=Processes(1), **in_processes.FLOATS)
    class Hangs(Closes.__wrapped__):  # type: ignore[name-defined,misc]
        def close(self) -> None:
            time.sleep(60)

    before = children()
    began = time.monotonic()
    with Client(Closes, Hangs) as client:
        client.infer("closes", of(1))
    assert len(list(tmp_path.iterdir())) == 2
    assert time.monotonic() - began < 20
    assert children() == before


def test_a_stop_while_the_process_is_away_answers_what_waits() -> None:
    @model(name="m", instances=Processes(1), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        time.sleep(0.5)
        os._exit(0)

    server = Server(m, http="127.0.0.1:0", grpc=None, drain_timeout=0.1)
    with server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", of(0))] * 3)
        until(lambda: metric_at(url, "penstock_in_flight") == 3, "all in flight")
    for future in futures:
        with contextlib.suppress(OSError):
            assert future.result().status in (500, 503)


def test_a_model_that_needs_its_code_sent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    handler = model(lambda x: x, name="m", instances=Processes(1), **in_processes.FLOATS)
    with pytest.raises(TypeError, match=r"pip install 'penstock\[processes\]'"):
        Client(handler)


def test_no_more_than_the_cores_can_run_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    cores = processors()
    model(
        in_processes.double.__wrapped__, name="m", instances=Processes(cores, threads=1), **in_processes.ROWS
    ).definition()
    assert not caplog.records
    model(
        in_processes.double.__wrapped__, name="m", instances=Processes(1, threads=cores + 1), **in_processes.ROWS
    ).definition()
    assert f"set instances=Processes(1, threads={cores})" in caplog.text
