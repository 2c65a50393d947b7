"""Memory of every kind of request: at most four times the counted bytes; health responds while a request is decoded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from observe import free_ports

from grpc_by_hand import call
from hostile import Case, every_case, repeated
from http_by_hand import Connection, get, metric
from serving_process import MODELS, Serving
from waiting import until

pytestmark = pytest.mark.serial

CASES = every_case()
LIVE = 0.35
"""Seconds within which `/v2/health/live` answers."""

SLACK = 64 << 20
"""Bytes of memory not due to requests: socket buffers, allocator caches, the interpreter."""


@dataclass
class Measured:
    """Measurements of a server while it had a request."""

    live: float = 0.0
    counted: float = 0.0
    polls: int = 0


class Watch:
    """Polls the health of a server, and the bytes that it counts."""

    def __init__(self, url: str) -> None:
        self.measured = Measured()
        self._url, self._done = url, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Connection(self._url) as connection:
            while not self._done.is_set():
                started = time.monotonic()
                assert connection.send_request("GET", "/v2/health/live").status == 200
                self.measured.live = max(self.measured.live, time.monotonic() - started)
                exposition = connection.send_request("GET", "/metrics").body.decode()
                self.measured.counted = max(self.measured.counted, metric(exposition, "penstock_body_bytes"))
                self.measured.polls += 1
                self._done.wait(0.005)

    def __enter__(self) -> Measured:
        self._thread.start()
        return self.measured

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def memory(pid: int, field_name: str) -> int:
    """Bytes of a process's memory, by the name in /proc/PID/status."""
    match = re.search(rf"{field_name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1]) << 10


def send(server: Serving, case: Case, body: bytes) -> str:
    """Sends a request and returns its status."""
    if case.is_grpc:
        return call(server.grpc, case.path, body, case.headers)
    return post_it(server.http, case.path, body, case.headers)


def post_it(url: str, path: str, body: bytes, headers: dict[str, str]) -> str:
    """The status of a POST; "closed" if the server refuses it early."""
    with Connection(url) as connection:
        try:
            return str(connection.send_request("POST", path, body, headers).status)
        except (BrokenPipeError, ConnectionResetError):
            return "closed"


@contextmanager
def serving(gate: Path) -> Iterator[Serving]:
    """A server whose models hold requests until the gate exists, with one I/O thread."""
    options = ("--io-threads", "1", "--cloud-events", "--model-control", "explicit")
    addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with Serving("costly.py", *addresses, *options, environment={"GATE": str(gate)}) as server:
        yield server


def measured(case: Case, body: bytes, gate: Path) -> tuple[Measured, int, list[str]]:
    """Measurements while a request was read and held, the growth of memory in bytes, and the outcome."""
    with serving(gate) as server:
        before = memory(server.process.pid, "VmRSS")
        # Resets the peak.
        Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
        outcome: list[str] = []
        sender = threading.Thread(target=lambda: outcome.append(send(server, case, body)))
        with Watch(server.http) as values:
            sender.start()
            entered = gate.with_suffix(".entered")
            until(lambda: not sender.is_alive() or entered.exists(), "the request to be decoded", 60)
            # The handler's bytes are counted by now: one more poll.
            polls = values.polls
            until(lambda: values.polls > polls + 1, "the server to report its held bytes")
            gate.touch()
            sender.join(60)
        return values, memory(server.process.pid, "VmHWM") - before, outcome


@pytest.mark.parametrize("name", CASES)
def test_request_memory_stays_within_its_counted_bytes(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    body = case.body()
    reports = []
    # Other programs can delay a server for longer than this, but not three times in a row.
    for attempt in range(3):
        values, growth, outcome = measured(case, body, tmp_path / f"gate{attempt}")
        assert outcome, "no response"
        reports.append(
            f"{outcome} {growth >> 20} MiB, counted {values.counted / 2**20:.0f}, live {values.live * 1e3:.0f} ms"
        )
        if growth <= 4 * values.counted + SLACK and values.live <= LIVE:
            return
    raise AssertionError(reports)


EXAMPLES = Path(__file__).parents[2] / "examples"
INTEGRATIONS = {
    "inferless": ("examples/inferless/words", "/v2/models/words/infer"),
    "modelbit": ("examples/modelbit", "/v1/doubler/latest"),
    "openinference": ("examples/openinference", "/v2/models/similarity/infer"),
}
"""A folder that each integration serves, and one of its paths."""

DOCUMENTS = f'{{"data":[{repeated("[]")}]}}'.encode()
"""JSON of very many small values: about 1.6 GB of Python objects, counted as 0.8 GB."""

HALF_A_GIGABYTE = {"PENSTOCK_MAX_INFLIGHT_BYTES": "500MB"}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_integrations_count_python_objects_of_json(name: str) -> None:
    folder, path = INTEGRATIONS[name]
    if name == "modelbit":
        pytest.importorskip("pandas")
    options = ("--http", "127.0.0.1:0", "--grpc", "off", "--io-threads", "1")
    with Serving(str(EXAMPLES.parent / folder), *options, environment=HALF_A_GIGABYTE) as server:
        refused_uncounted(server.process.pid, server.http, path)


def test_kserve_server_counts_python_objects_of_json() -> None:
    http, grpc = free_ports(2)
    script = MODELS / "costly_kserve.py"
    command = [sys.executable, str(script), str(http), str(grpc)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **HALF_A_GIGABYTE}) as process:
        try:
            url = f"http://127.0.0.1:{http}"
            until(lambda: is_serving(url), "the server to start")
            refused_uncounted(process.pid, url, "/v1/models/documents:predict")
        finally:
            process.kill()


def is_serving(url: str) -> bool:
    """True if the server and its model respond."""
    try:
        return get(url, "/v1/models/documents").status == 200
    except OSError:
        return False


def refused_uncounted(pid: int, url: str, path: str) -> None:
    """Sends more JSON than the server may hold as Python objects, and checks that it creates none."""
    before = memory(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    with Watch(url) as values:
        status = post_it(url, path, DOCUMENTS, {"content-type": "application/json"})
    assert status in {"400", "413", "closed"}
    growth = memory(pid, "VmHWM") - before
    assert growth <= 4 * len(DOCUMENTS) + SLACK, f"{growth / 1e6:.0f} MB"
    # A single poll: other programs may take the processor meanwhile.
    assert values.live <= 4 * LIVE
