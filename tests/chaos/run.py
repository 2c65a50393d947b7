"""The run: one server under mixed calls, reloads, kills and overload."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from observe import free_ports

from http_by_hand import get, metric_at
from repositories import Repository
from serving_process import Serving
from waiting import until

from .access import Access, write_certificates
from .calls import FAULTY, KILLED, VALID, pool
from .clients import ProtocolClient
from .load import Load
from .models import POOL_PROCESSES, POOL_ROWS
from .tally import Tally, WrongError
from .watch import Watch, children

WORKERS = 6
POOL_CLIENTS = 3
CYCLE = 15.0
"""Seconds of a cycle: mixed calls, then 0.8 of the capacity, then twice the capacity. With four per minute, quarters of
the run are comparable."""


class Run:
    """Shared state of the threads of a run."""

    def __init__(self, server: Serving, access: Access, repository: Repository, seed: int) -> None:
        self.server, self.access, self.repository, self.seed = server, access, repository, seed
        self.tally = Tally()
        self.load = Load(access, self.tally)
        self.stop, self.mixing = threading.Event(), threading.Event()
        self.factor, self.reloads, self.killed = 1, 0, 0
        self.crashed: list[BaseException] = []

    def call_randomly(self, index: int) -> None:
        """Makes random calls."""
        client = ProtocolClient(self.access, self.tally, self.seed + index)
        while not self.stop.is_set():
            if not self.mixing.wait(0.1):
                continue
            call, allowed = client.random.choice(FAULTY if client.random.random() < 0.1 else VALID)
            self.tally.run(call.__name__, lambda call=call: call(client), allowed)
            time.sleep(client.random.uniform(0, 0.01))
        client.close()

    def reload(self) -> None:
        """Replaces a model with new versions."""
        client = self.access.repository()
        while not self.stop.wait(0.5):
            self.repository.put("times", "1", self.factor + 1)
            status, message = client.load("times")
            if status != 200:
                self.crashed.append(AssertionError(f"the load of a valid version returned {status}: {message}"))
            self.factor += 1
            self.reloads += 1

    def kill(self) -> None:
        """Kills processes of `pool` one at a time, in any state."""
        generator = random.Random(self.seed)
        while not self.stop.wait(generator.uniform(0.5, 2.5)):
            alive = children(self.server.process.pid)
            if alive:
                os.kill(generator.choice(alive), signal.SIGKILL)
                self.killed += 1

    def call_pool(self, index: int) -> None:
        """Calls `pool` without pause, so that a kill interrupts a batch."""
        client = ProtocolClient(self.access, self.tally, self.seed - 1 - index)
        while not self.stop.is_set():
            if self.mixing.wait(0.1):
                self.tally.run("pool", lambda: pool(client), KILLED)
        client.close()

    def call_reloaded(self) -> None:
        """Calls the model that is replaced; the old or the new version responds."""
        client = self.access.repository()

        def call() -> None:
            lowest = self.factor
            actual = client.factor("times")
            if not isinstance(actual, float) or not lowest <= actual <= self.factor + 1:
                raise WrongError(f"{actual} with versions {lowest} to {self.factor + 1} loaded")

        while not self.stop.wait(0.005):
            self.tally.run("reloaded", call, frozenset())

    def start_thread(self, target: Any, *arguments: Any) -> threading.Thread:
        """Starts a thread whose exception ends the run."""

        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:
                self.crashed.append(error)
                self.stop.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def run_all(self, seconds: float) -> dict[str, Any]:
        """Runs all threads for some seconds, and returns the report."""
        watch = Watch(self.server.process.pid)
        threads = [self.start_thread(self.call_randomly, index) for index in range(WORKERS)]
        threads += [
            self.start_thread(self.reload),
            self.start_thread(self.kill),
            *(self.start_thread(self.call_pool, index) for index in range(POOL_CLIENTS)),
        ]
        threads += [self.start_thread(self.call_reloaded), self.start_thread(watch.run)]
        end = time.monotonic() + seconds
        cycle = min(CYCLE, seconds / 4)
        while time.monotonic() < end and not self.stop.is_set():
            self.mixing.set()
            self.stop.wait(cycle * 0.6)
            self.mixing.clear()
            time.sleep(0.2)
            self.load.run(0.8, cycle * 0.2)
            self.load.run(2.0, cycle * 0.2)
        self.stop.set()
        watch.stop.set()
        for thread in threads:
            thread.join()
        return self.report(watch)

    def report(self, watch: Watch) -> dict[str, Any]:
        url, tally = self.access.metrics, self.tally
        remaining = {}
        until(
            lambda: metric_at(url, "penstock_processes") == POOL_PROCESSES, "the restart of the last killed processes"
        )
        for gauge in ("penstock_in_flight", "penstock_queue_depth", "penstock_body_bytes"):
            try:
                until(lambda gauge=gauge: metric_at(url, gauge) == 0, gauge)
            except AssertionError:
                remaining[gauge] = metric_at(url, gauge)
        p99 = {f"{share:g}": round(self.load.p99(share), 4) for share in (0.8, 2.0)}
        return {
            "outcomes": {name: dict(sorted(counter.items())) for name, counter in sorted(tally.outcomes.items())},
            "requests": sum(counter.total() for counter in tally.outcomes.values()),
            "lost": tally.total("lost"),
            "wrong, mixed or duplicate": tally.total("wrong"),
            "unexpected refusals": tally.total("unexpected"),
            "failures": tally.failures + [repr(error) for error in self.crashed],
            "left in the server": remaining,
            "reloads": self.reloads,
            "processes killed": self.killed,
            "failed with a killed process": tally.outcomes["pool"]["refused 500"],
            "held": watch.growth(),
            "accepted p99, seconds, at shares of the capacity": p99,
            "p99 at 2 over p99 at 0.8": round(p99["2"] / p99["0.8"], 2) if p99["0.8"] else None,
            "refused at 2": self.load.refused.get(2.0, 0),
            "alive": get(url, "/v2/health/ready").status == 200,
        }


def run(minutes: float, seed: int, *, tls: bool = False) -> dict[str, Any]:
    """Serves, runs for some minutes, drains, and reports. With `tls` each request has a key too."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(Path(folder) / "models")
        repository.put("times", "1", 1)
        control = ("--repository", str(repository.path), "--model-control", "explicit", "--load-models", "times")
        (port,) = free_ports(1)
        metrics = f"127.0.0.1:{port}"
        address = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--listeners", f"metrics=plain:{metrics}")
        files = write_certificates(Path(folder)) if tls else []
        with Serving("models.py", *address, *control, *files, folder=Path(__file__).parent) as server:
            grpc = server.grpc.partition("://")[2] or server.grpc
            access = Access(server.http, grpc, f"http://{metrics}", Path(folder) if tls else None)
            report = Run(server, access, repository, seed).run_all(minutes * 60)
            server.signal(signal.SIGTERM)
            report["exit status"] = server.exit_status()
            report["panics"] = server.err.count("panicked")
    return report


def find_violations(report: dict[str, Any]) -> list[str]:
    """Names of the violated expectations."""
    zero = ("lost", "wrong, mixed or duplicate", "unexpected refusals", "failures", "left in the server", "panics")
    violations = [name for name in (*zero, "exit status") if report[name]]
    if report["failed with a killed process"] > POOL_ROWS * report["processes killed"]:
        violations.append("more failures than rows of killed batches")
    return violations + [f"leaks {name}" for name, grown in report["held"].items() if grown["leaks"]]
