"""One rule for every way into the server: memory held is at most four times the counted bytes, and health answers while
any one request is decoded."""

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
"""Bytes of memory that are nobody's: buffers of sockets, what an allocator keeps, the interpreter's own."""


@dataclass
class Seen:
    """What was seen of a server while it had a request."""

    live: float = 0.0
    counted: float = 0.0
    looks: int = 0


class Watch:
    """Asks a server for its health, and for the bytes that it counts, over and over."""

    def __init__(self, url: str) -> None:
        self.seen = Seen()
        self._url, self._done = url, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Connection(self._url) as connection:
            while not self._done.is_set():
                started = time.monotonic()
                assert connection.ask("GET", "/v2/health/live").status == 200
                self.seen.live = max(self.seen.live, time.monotonic() - started)
                exposition = connection.ask("GET", "/metrics").body.decode()
                self.seen.counted = max(self.seen.counted, metric(exposition, "penstock_body_bytes"))
                self.seen.looks += 1
                self._done.wait(0.005)

    def __enter__(self) -> Seen:
        self._thread.start()
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def memory(pid: int, what: str) -> int:
    """Bytes of a process's memory, by their name in the kernel's table."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def send(server: Serving, case: Case, body: bytes) -> str:
    """What became of a request: its status."""
    if case.is_grpc:
        return call(server.grpc, case.path, body, case.headers)
    return post_it(server.http, case.path, body, case.headers)


def post_it(url: str, path: str, body: bytes, headers: dict[str, str]) -> str:
    """The status of a POST; "closed" where the server refuses it before its end."""
    with Connection(url) as connection:
        try:
            return str(connection.ask("POST", path, body, headers).status)
        except (BrokenPipeError, ConnectionResetError):
            return "closed"


@contextmanager
def serving(gate: Path) -> Iterator[Serving]:
    """Models that hold their requests until the gate is there, and one thread for all connections."""
    options = ("--io-threads", "1", "--cloud-events", "--model-control", "explicit")
    addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with Serving("costly.py", *addresses, *options, environment={"GATE": str(gate)}) as server:
        yield server


def measured(case: Case, body: bytes, gate: Path) -> tuple[Seen, int, list[str]]:
    """What was seen while a request was read and held, the bytes that memory grew by, and the request's outcome."""
    with serving(gate) as server:
        before = memory(server.process.pid, "VmRSS")
        # From now on the highest that it is.
        Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
        outcome: list[str] = []
        sender = threading.Thread(target=lambda: outcome.append(send(server, case, body)))
        with Watch(server.http) as seen:
            sender.start()
            entered = gate.with_suffix(".entered")
            until(lambda: not sender.is_alive() or entered.exists(), "the request to be decoded", 60)
            # What the handler holds is counted by now: it is looked at once more.
            looks = seen.looks
            until(lambda: seen.looks > looks + 1, "the server to tell what it holds")
            gate.touch()
            sender.join(60)
        return seen, memory(server.process.pid, "VmHWM") - before, outcome


@pytest.mark.parametrize("name", CASES)
def test_a_request_costs_what_it_is_counted_for(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    body = case.body()
    shown = []
    # Other programs can take the processor from a server for longer than this: not three times in a row.
    for attempt in range(3):
        seen, grown, outcome = measured(case, body, tmp_path / f"gate{attempt}")
        assert outcome, "it was never answered"
        shown.append(f"{outcome} {grown >> 20} MiB, counted {seen.counted / 2**20:.0f}, live {seen.live * 1e3:.0f} ms")
        if grown <= 4 * seen.counted + SLACK and seen.live <= LIVE:
            return
    raise AssertionError(shown)


EXAMPLES = Path(__file__).parents[2] / "examples"
INTEGRATIONS = {
    "inferless": ("examples/inferless/words", "/v2/models/words/infer"),
    "modelbit": ("examples/modelbit", "/v1/doubler/latest"),
    "openinference": ("examples/openinference", "/v2/models/similarity/infer"),
}
"""A folder that each integration serves, and a path of it."""

DOCUMENTS = f'{{"data":[{repeated("[]")}]}}'.encode()
"""JSON of very many small values: some 1.6 GB of Python's objects, counted as 0.8."""

HALF_A_GIGABYTE = {"PENSTOCK_MAX_INFLIGHT_BYTES": "500MB"}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_integrations_count_what_python_makes_of_json(name: str) -> None:
    folder, path = INTEGRATIONS[name]
    if name == "modelbit":
        pytest.importorskip("pandas")
    options = ("--http", "127.0.0.1:0", "--grpc", "off", "--io-threads", "1")
    with Serving(str(EXAMPLES.parent / folder), *options, environment=HALF_A_GIGABYTE) as server:
        refused_uncounted(server.process.pid, server.http, path)


def test_kserves_server_counts_what_python_makes_of_json() -> None:
    http, grpc = free_ports(2)
    script = MODELS / "costly_kserve.py"
    command = [sys.executable, str(script), str(http), str(grpc)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **HALF_A_GIGABYTE}) as process:
        try:
            url = f"http://127.0.0.1:{http}"
            until(lambda: answers(url), "the server to start")
            refused_uncounted(process.pid, url, "/v1/models/documents:predict")
        finally:
            process.kill()


def answers(url: str) -> bool:
    """Whether a server is there, and its model."""
    try:
        return get(url, "/v1/models/documents").status == 200
    except OSError:
        return False


def refused_uncounted(pid: int, url: str, path: str) -> None:
    """Sends more JSON than the server may hold as Python's objects, and sees that it makes none of them."""
    before = memory(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    with Watch(url) as seen:
        status = post_it(url, path, DOCUMENTS, {"content-type": "application/json"})
    assert status in {"400", "413", "closed"}
    grown = memory(pid, "VmHWM") - before
    assert grown <= 4 * len(DOCUMENTS) + SLACK, f"{grown / 1e6:.0f} MB"
    # A single look: other programs may take the processor meanwhile.
    assert seen.live <= 4 * LIVE
