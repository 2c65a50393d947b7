"""The end of instance processes: failed requests, restarts, and cleanup."""

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
    # The signal of the kernel's out-of-memory killer.
    pytest.param(2, "its process was killed by SIGKILL", "killed", marks=pytest.mark.fault("killed for memory")),
    pytest.param(3, "its process was killed by SIGSEGV", "killed", marks=pytest.mark.fault("segfault")),
    (7, "its process was killed by SIGABRT", "killed"),
    (10, "its process exited with code 4", "exited"),
    (4, "its process did not answer within 2s and was killed", "hung"),
    (5, "its process broke the protocol and was killed", "broken"),
    (6, "its process broke the protocol and was killed", "broken"),
]


def children() -> set[int]:
    """Child processes that were not reaped."""
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    listed = [path.read_text() for path in Path("/proc/self/task").glob("*/children")] or [listing.read_text()]
    return {int(number) for text in listed for number in text.split()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def regions() -> int:
    """The number of shared regions that this process maps."""
    return Path("/proc/self/maps").read_text().count("memfd:penstock")


def is_ready(client: Client, name: str) -> bool:
    return client.get(f"/v2/models/{name}/ready").status == 200


def row_of(number: float, *more: float) -> dict[str, Any]:
    return {"x": np.array([number, *more], np.float32)}


@pytest.fixture(scope="module")
def fragile() -> Iterator[Server]:
    with Server(in_processes.fragile, http="127.0.0.1:0", grpc=None) as server:
        yield server


@pytest.mark.parametrize(("fault", "text", "reason"), ENDS)
def test_process_exit_fails_its_batch_and_the_next_succeeds(
    fragile: Server, fault: int, text: str, reason: str
) -> None:
    url = fragile.http_url
    labels = {"model": "fragile", "version": "1", "reason": reason}
    before = metric_at(url, "penstock_restarts_total", **labels)
    [pid] = infer(url, "fragile", row_of(0)).array("y").tolist()
    began = time.monotonic()
    response = infer(url, "fragile", row_of(fault))
    assert (response.status, response.error()) == (500, f"model 'fragile': {text}")
    assert time.monotonic() - began < 10
    assert str(int(pid)) not in response.error()
    assert metric_at(url, "penstock_restarts_total", **labels) == before + 1
    until(lambda: get(url, "/v2/models/fragile/ready").status == 200, "the model to be ready again")
    [other] = infer(url, "fragile", row_of(0)).array("y").tolist()
    assert other != pid
    assert metric_at(url, "penstock_processes", model="fragile", version="1") == 1


@pytest.mark.parametrize(
    ("fault", "text"), [(8, "model 'fragile' failed: RuntimeError"), (9, "model 'fragile' failed: SystemExit")]
)
def test_handler_exceptions_do_not_end_the_process(fragile: Server, fault: int, text: str) -> None:
    url = fragile.http_url
    pid = infer(url, "fragile", row_of(0)).array("y").tolist()
    response = infer(url, "fragile", row_of(fault))
    assert (response.status, response.error()) == (500, text)
    assert infer(url, "fragile", row_of(0)).array("y").tolist() == pid


def test_killed_idle_process_fails_no_request(fragile: Server) -> None:
    url = fragile.http_url
    for _ in range(3):
        [pid] = infer(url, "fragile", row_of(0)).array("y").tolist()
        os.kill(int(pid), signal.SIGKILL)
        response = infer(url, "fragile", row_of(0))
        assert response.status == 200, response.error()


def test_other_processes_serve_while_one_crashes() -> None:
    with Server(in_processes.fragile_rows, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        calls = [row_of(0)] * 10 + [row_of(1)] + [row_of(0)] * 10
        rows = [{"x": one["x"].reshape(1, 1)} for one in calls]
        futures = at_once([lambda row=row: infer(url, "fragile_rows", row) for row in rows])
        statuses = [future.result().status for future in futures]
        assert statuses[10] == 500
        # Only requests of the same batch fail.
        assert statuses.count(500) <= 8
        assert infer(url, "fragile_rows", {"x": np.full((1, 1), 0.5, np.float32)}).status == 200


def test_poison_request_is_not_retried(tmp_path: Path) -> None:
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
            client.infer("m", row_of(1))
        for _ in range(5):
            assert client.infer("m", row_of(2))["y"].tolist() == [2]
    assert log.read_text().splitlines() == ["1"] + ["2"] * 5


def test_model_is_unready_without_processes(tmp_path: Path) -> None:
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
        response = infer(url, "m", row_of(0))
        assert response.error() == "model 'm': its process exited with code 0"
        assert get(url, "/v2/models/m/ready").status != 200
        refused = infer(url, "m", row_of(0))
        assert (refused.status, refused.error()) == (503, "model 'm' is not ready")
        gate.touch()
        until(lambda: get(url, "/v2/models/m/ready").status == 200, "the process to be back")


def test_stopped_server_leaves_no_processes_descriptors_or_regions() -> None:
    with Client(in_processes.double) as client:
        client.infer("double", {"x": np.ones((1, 1), np.float32)})
    before, open_descriptors, shared = children(), descriptors(), regions()
    for _ in range(2):
        with Client(in_processes.fragile, in_processes.double) as client:
            with pytest.raises(HandlerError):
                client.infer("fragile", row_of(1))
            big = client.infer("double", {"x": np.ones((2, 300_000), np.float32)})["y"]
            assert big.sum() == 1_200_000
            until(partial(is_ready, client, "fragile"), "the process to be back")
            assert client.infer("fragile", row_of(0))
            assert children() > before
        assert children() == before
    del big
    assert (descriptors(), regions()) == (open_descriptors, shared)


def test_load_failure_in_a_process_aborts_the_start() -> None:
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


def test_process_death_while_loading_aborts_the_start() -> None:
    @model(name="m", instances=Processes(1), **in_processes.FLOATS)
    class Broken:
        def __init__(self) -> None:
            os._exit(5)

        def __call__(self, x: Any) -> Any:
            return x

    with pytest.raises(LoadError, match="could not be loaded: its process exited with code 5"), Client(Broken):
        raise AssertionError("it must not start")


@pytest.mark.parametrize("option", ["max_batches", "max_age", "max_rss"])
def test_recycling_under_load_drops_no_request(option: str) -> None:
    value: dict[str, Any] = {"max_batches": 20} if option == "max_batches" else {"max_age": 0.3}
    if option == "max_rss":
        value = {"max_rss": 1}

    @model(name="m", instances=Processes(2, **value), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        return np.array([x[0], os.getpid()], np.float32)

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url, pids = server.http_url, set()
        replaced = lambda: metric_at(url, "penstock_restarts_total", model="m", version="1", reason=option)  # noqa: E731
        number, end = 0, time.monotonic() + 20
        while replaced() < 2 and time.monotonic() < end:
            for future in at_once([lambda n=n: infer(url, "m", row_of(n)) for n in range(number, number + 20)]):
                response = future.result()
                assert response.status == 200, response.error()
                pids.add(response.array("y")[1])
            number += 20
        assert replaced() >= 2
        assert len(pids) >= 3
        assert (
            metric_at(url, "penstock_requests_total", model="m", version="1", protocol="http", outcome="ok") == number
        )


def test_abandoned_batch_restarts_its_process() -> None:
    @model(name="m", instances=Processes(1, abandoned_after=0.3), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        time.sleep(float(x[0]))
        return x

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        late = infer(url, "m", row_of(60), parameters={"timeout": 50_000})
        assert late.status == 504
        assert infer(url, "m", row_of(0)).status == 200
        assert metric_at(url, "penstock_restarts_total", model="m", version="1", reason="abandoned") == 1


def test_terminal_interrupt_reaches_only_the_server() -> None:
    code = "import in_processes, penstock; penstock.serve(in_processes.fragile_rows, http='127.0.0.1:0', grpc=None)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    folder = Path(in_processes.__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
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
    _, output = process.communicate(timeout=20)
    assert process.returncode in (0, 130), output
    assert "Traceback" not in output


def test_processes_exit_when_the_server_is_killed() -> None:
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


def test_stop_closes_handlers_and_kills_hanging_ones(tmp_path: Path) -> None:
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
        client.infer("closes", row_of(1))
    assert len(list(tmp_path.iterdir())) == 2
    assert time.monotonic() - began < 20
    assert children() == before


def test_stop_without_a_running_process_answers_queued_requests() -> None:
    @model(name="m", instances=Processes(1), **in_processes.FLOATS)
    def m(x: Any) -> Any:
        time.sleep(0.5)
        os._exit(0)

    server = Server(m, http="127.0.0.1:0", grpc=None, drain_timeout=0.1)
    with server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", row_of(0))] * 3)
        until(lambda: metric_at(url, "penstock_in_flight") == 3, "all in flight")
    for future in futures:
        with contextlib.suppress(OSError):
            assert future.result().status in (500, 503)


def test_missing_pickler_for_handler_code_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    handler = model(lambda x: x, name="m", instances=Processes(1), **in_processes.FLOATS)
    with pytest.raises(TypeError, match=r"pip install 'penstock\[processes\]'"):
        Client(handler)


def test_more_threads_than_cores_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    cores = processors()
    model(
        in_processes.double.__wrapped__, name="m", instances=Processes(cores, threads=1), **in_processes.ROWS
    ).definition()
    assert not caplog.records
    model(
        in_processes.double.__wrapped__, name="m", instances=Processes(1, threads=cores + 1), **in_processes.ROWS
    ).definition()
    assert f"set instances=Processes(1, threads={cores})" in caplog.text
