"""The run: one server, and everything that happens to it."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from http_by_hand import get, metric_at
from repositories import Repository
from repositories import RepositoryClient as Repositories
from serving_process import Serving
from waiting import until

from .callers import Caller
from .calls import FAULTY, GOOD, KILLED, own
from .load import Load
from .models import OWN, OWN_ROWS
from .tally import Tally, WrongError
from .watch import Watch, children

WORKERS = 6
KILLED_CALLERS = 3
CYCLE = 15.0
"""Seconds of everything mixed, of 0.8 of the capacity, and of twice the capacity, over and over. Four in a minute, so
that quarters of the run are alike."""


class Run:
    """The state that the threads of the run share."""

    def __init__(self, server: Serving, repository: Repository, seed: int) -> None:
        self.server, self.repository, self.seed = server, repository, seed
        self.tally, self.load = Tally(), Load(server.http, server.grpc, Tally())
        self.load.tally = self.tally
        self.ends, self.mixes = threading.Event(), threading.Event()
        self.factor, self.reloads, self.killed = 1, 0, 0
        self.crashed: list[BaseException] = []

    def work(self, index: int) -> None:
        """Draws calls and makes them."""
        caller = Caller(self.server.http, self.server.grpc, self.tally, self.seed + index)
        while not self.ends.is_set():
            if not self.mixes.wait(0.1):
                continue
            call, allowed = caller.random.choice(FAULTY if caller.random.random() < 0.1 else GOOD)
            self.tally.run(call.__name__, lambda call=call: call(caller), allowed)
            time.sleep(caller.random.uniform(0, 0.01))
        caller.close()

    def reload(self) -> None:
        """Puts new versions of a model in place of the old."""
        caller = Repositories(self.server.http)
        while not self.ends.wait(0.5):
            self.repository.put("times", "1", self.factor + 1)
            status, told = caller.load("times")
            if status != 200:
                self.crashed.append(AssertionError(f"the load of a good version answered {status}: {told}"))
            self.factor += 1
            self.reloads += 1

    def kill(self) -> None:
        """Kills processes of `own`, one at a time, whatever they are at."""
        draws = random.Random(self.seed)
        while not self.ends.wait(draws.uniform(0.5, 2.5)):
            alive = children(self.server.process.pid)
            if alive:
                os.kill(draws.choice(alive), signal.SIGKILL)
                self.killed += 1

    def ask_killed(self, index: int) -> None:
        """Keeps the processes of `own` busy, so that a kill finds a batch there."""
        caller = Caller(self.server.http, self.server.grpc, self.tally, self.seed - 1 - index)
        while not self.ends.is_set():
            if self.mixes.wait(0.1):
                self.tally.run("own", lambda: own(caller), KILLED)
        caller.close()

    def ask_reloaded(self) -> None:
        """Asks the model that is replaced: by the version that is loaded, or the one that is being loaded."""
        caller = Repositories(self.server.http)

        def ask() -> None:
            least = self.factor
            got = caller.factor("times")
            if not isinstance(got, float) or not least <= got <= self.factor + 1:
                raise WrongError(f"{got} while {least} to {self.factor + 1} was loaded")

        while not self.ends.wait(0.005):
            self.tally.run("reloaded", ask, frozenset())

    def guarded(self, target: Any, *arguments: Any) -> threading.Thread:
        """A thread whose crash ends the run."""

        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:
                self.crashed.append(error)
                self.ends.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def go(self, seconds: float) -> dict[str, Any]:
        """Everything, for so long; then the report."""
        watch = Watch(self.server.process.pid)
        threads = [self.guarded(self.work, index) for index in range(WORKERS)]
        threads += [
            self.guarded(self.reload),
            self.guarded(self.kill),
            *(self.guarded(self.ask_killed, index) for index in range(KILLED_CALLERS)),
        ]
        threads += [self.guarded(self.ask_reloaded), self.guarded(watch.run)]
        end = time.monotonic() + seconds
        cycle = min(CYCLE, seconds / 4)
        while time.monotonic() < end and not self.ends.is_set():
            self.mixes.set()
            self.ends.wait(cycle * 0.6)
            self.mixes.clear()
            time.sleep(0.2)
            self.load.run(0.8, cycle * 0.2)
            self.load.run(2.0, cycle * 0.2)
        self.ends.set()
        watch.ends.set()
        for thread in threads:
            thread.join()
        return self.report(watch)

    def report(self, watch: Watch) -> dict[str, Any]:
        url, tally = self.server.http, self.tally
        left = {}
        until(lambda: metric_at(url, "penstock_processes") == OWN, "the last processes that were killed to be back")
        for gauge in ("penstock_in_flight", "penstock_queue_depth", "penstock_body_bytes"):
            try:
                until(lambda gauge=gauge: metric_at(url, gauge) == 0, gauge)
            except AssertionError:
                left[gauge] = metric_at(url, gauge)
        p99 = {f"{share:g}": round(self.load.p99(share), 4) for share in (0.8, 2.0)}
        return {
            "outcomes": {name: dict(sorted(counter.items())) for name, counter in sorted(tally.outcomes.items())},
            "requests": sum(counter.total() for counter in tally.outcomes.values()),
            "lost": tally.total("lost"),
            "wrong, mixed or doubled": tally.total("wrong"),
            "unexpected refusals": tally.total("unexpected"),
            "failures": tally.failures + [repr(error) for error in self.crashed],
            "left in the server": left,
            "reloads": self.reloads,
            "processes killed": self.killed,
            "failed with a killed process": tally.outcomes["own"]["refused 500"],
            "held": watch.growth(),
            "accepted p99, seconds, at shares of the capacity": p99,
            "p99 at 2 over p99 at 0.8": round(p99["2"] / p99["0.8"], 2) if p99["0.8"] else None,
            "refused at 2": self.load.refused.get(2.0, 0),
            "alive": get(url, "/v2/health/ready").status == 200,
        }


def run(minutes: float, seed: int) -> dict[str, Any]:
    """Serves, does everything for so many minutes, drains, and reports."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Repository(Path(folder) / "models")
        repository.put("times", "1", 1)
        control = ("--repository", str(repository.path), "--model-control", "explicit", "--load-models", "times")
        address = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        with Serving("models.py", *address, *control, folder=Path(__file__).parent) as server:
            report = Run(server, repository, seed).go(minutes * 60)
            server.signal(signal.SIGTERM)
            report["exit status"] = server.exit_status()
            report["panics"] = server.err.count("panicked")
    return report


def failed(report: dict[str, Any]) -> list[str]:
    """What may not be."""
    zero = ("lost", "wrong, mixed or doubled", "unexpected refusals", "failures", "left in the server", "panics")
    wrong = [name for name in (*zero, "exit status") if report[name]]
    if report["failed with a killed process"] > OWN_ROWS * report["processes killed"]:
        wrong.append("more than the batches of the processes that were killed")
    return wrong + [f"leaks {name}" for name, grown in report["held"].items() if grown["leaks"]]
