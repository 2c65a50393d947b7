"""Faults of the machine: descriptors, disk, clock and signals."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from http_by_hand import connect, get, infer, metric_at
from serving_process import Serving
from waiting import at_once, until

LOOPBACK = ("--http", "127.0.0.1:0", "--grpc", "off")
HERE = Path(__file__).parent


def check_inference(server: Serving, model: str = "same", value: float = 1) -> None:
    x = np.full(4, value, np.float32)
    assert infer(server.http, model, {"x": x}).array("y").tolist() == x.tolist()


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.fault("no descriptors left")
def test_server_recovers_after_running_out_of_descriptors() -> None:
    with Serving("same.py", *LOOPBACK) as server, ExitStack() as stack:
        check_inference(server)
        process = server.process.pid
        connection = connect(server.http)
        stack.enter_context(connection)
        until(lambda: metric_at(server.http, "penstock_connections") == 2)
        # Descriptors are numbered from the lowest free one: two more, and then none.
        limit = max(int(one) for one in os.listdir(f"/proc/{process}/fd")) + 3
        old_limit = resource.prlimit(
            process, resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        waiting_connections = [stack.enter_context(connect(server.http)) for _ in range(20)]
        began, used = time.monotonic(), processor_seconds(process)
        while time.monotonic() < began + 1:
            # An accepted connection is served.
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.05)
        assert processor_seconds(process) - used < 0.7, "it must not busy-wait"
        assert server.process.poll() is None
        for sock in waiting_connections:
            sock.close()
        until(lambda: _serves(server), "it to accept again")
        resource.prlimit(process, resource.RLIMIT_NOFILE, old_limit)
        check_inference(server)


def _serves(server: Serving) -> bool:
    try:
        return get(server.http, "/v2/health/ready").status == 200
    except OSError:
        return False


@contextmanager
def unwritable_log(kind: str) -> Iterator[IO[str]]:
    """A log that cannot be written: on a full disk, or to a closed pipe."""
    with ExitStack() as stack:
        if kind == "full":
            yield stack.enter_context(open("/dev/full", "w", encoding="utf-8"))
        else:
            read, write = os.pipe()
            os.close(read)
            yield stack.enter_context(open(write, "w", encoding="utf-8"))


@pytest.mark.fault("no space for the log", "SIGPIPE", "SIGTERM in compute")
@pytest.mark.parametrize("kind", ["full", "closed"])
def test_unwritable_access_log_fails_no_request(kind: str, tmp_path: Path) -> None:
    logged = ("--access-log", "text")
    with (
        unwritable_log(kind) as log,
        Serving("gated.py", *LOOPBACK, *logged, environment={"GATE": str(tmp_path)}, stderr=log) as server,
    ):
        (tmp_path / "open").touch()
        x = {"x": np.array([1, 2], np.float32)}
        for _ in range(100):
            assert infer(server.http, "gated", x).array("y").tolist() == [2, 4]
        (tmp_path / "open").unlink()
        (waits,) = at_once([lambda: infer(server.http, "gated", x)])
        until(lambda: metric_at(server.http, "penstock_in_flight") == 1)
        server.signal(signal.SIGTERM)
        until(lambda: not _serves(server), "the drain")
        (tmp_path / "open").touch()
        assert waits.result().array("y").tolist() == [2, 4]
        assert server.exit_status() == 0


@pytest.mark.fault("no space for the log", "SIGPIPE", "raises")
@pytest.mark.parametrize("kind", ["full", "closed"])
def test_unwritable_stderr_does_not_affect_handlers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import logging\n"
        "from penstock import model\n@model\ndef logs(x: int) -> int:\n    logging.error('seen')\n    return x\n"
        "@model\ndef fails(x: int) -> int:\n    raise RuntimeError('on request')\n"
    )
    with unwritable_log(kind) as target, Serving("app.py", *LOOPBACK, folder=tmp_path, stderr=target) as server:
        for _ in range(5):
            assert infer(server.http, "logs", {"x": np.array(4)}).array("output").tolist() == 4
            refused = infer(server.http, "fails", {"x": np.array(4)})
            assert (refused.status, refused.error()) == (500, "model 'fails' failed: RuntimeError")
        server.signal(signal.SIGPIPE)
        assert infer(server.http, "logs", {"x": np.array(4)}).status == 200
        assert server.process.poll() is None


@pytest.mark.fault("clock jump")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no cc to build the clock with")
def test_wall_clock_jump_does_not_affect_deadlines(tmp_path: Path) -> None:
    library, jump = tmp_path / "clock.so", tmp_path / "jump"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "clock.c", "-ldl"], check=True)
    (tmp_path / "app.py").write_text(
        "import time\n"
        "from penstock import model\n@model\ndef now(x: int) -> float:\n    return time.time()\n"
        "@model\ndef slow(x: int) -> int:\n    time.sleep(0.6)\n    return x\n"
    )
    environment = {"LD_PRELOAD": str(library), "CLOCK_JUMP": str(jump)}
    with Serving("app.py", *LOOPBACK, folder=tmp_path, environment=environment) as server:

        def clock() -> float:
            return float(infer(server.http, "now", {"x": np.array(1)}).array("output"))

        assert abs(clock() - time.time()) < 60
        with connect(server.http) as idle:
            within = {"parameters": {"timeout": 5_000_000, "binary_data_output": True}}
            (waits,) = at_once([lambda: infer(server.http, "slow", {"x": np.array(3)}, **within)])
            until(lambda: metric_at(server.http, "penstock_in_flight") == 1)
            with jump.open("wb") as file:
                # A sparse file of 86 400 bytes: a jump of a day.
                file.truncate(86_400)
            assert clock() - time.time() > 80_000, "the clock jumped"
            assert waits.result().array("output").tolist() == 3
            idle.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(4096).startswith(b"HTTP/1.1 200 ")
            (waits,) = at_once([lambda: infer(server.http, "slow", {"x": np.array(4)}, **within)])
            until(lambda: metric_at(server.http, "penstock_in_flight") == 1)
            jump.unlink()
            assert waits.result().array("output").tolist() == 4
            late = infer(server.http, "slow", {"x": np.array(4)}, parameters={"timeout": 100_000})
            assert late.status == 504
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0


@pytest.mark.fault("SIGSTOP and SIGCONT")
def test_sigstop_and_sigcont_lose_no_request() -> None:
    with Serving("same.py", *LOOPBACK) as server:
        ends = threading.Event()

        def send_requests(start: int) -> int:
            sent = 0
            while not ends.is_set():
                check_inference(server, value=start + sent % 1000)
                sent += 1
            return sent

        clients = at_once([lambda start=start: send_requests(start * 1000) for start in range(4)])
        for _ in range(3):
            time.sleep(0.2)
            server.signal(signal.SIGSTOP)
            time.sleep(0.3)
            server.signal(signal.SIGCONT)
        time.sleep(0.2)
        ends.set()
        sent = sum(client.result() for client in clients)
        until(lambda: metric_at(server.http, "penstock_requests_total", outcome="ok") == sent)
        assert metric_at(server.http, "penstock_in_flight") == 0
