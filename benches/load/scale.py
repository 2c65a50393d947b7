"""Scale of one server: many connections, busy and idle, and many loaded models.

    python -m benches.load.scale --busy 2000 --idle 10000 --models 1,100,1000 --seconds 3 --repeats 3

The bare echo and penstock take turns with the connections, each with a fresh server, so that memory of an earlier
load does not hide that of a later one. Servers with different numbers of models take turns as well. The exit status is
1 for errors and closed connections.
"""

from __future__ import annotations

import argparse
import resource
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from statistics import median
from typing import Any

from benches.load import loader
from benches.load.machine import ROOT, provenance
from benches.load.server import Server
from benches.load.systems import ECHO, SYSTEMS, System
from benches.load.workloads import WORKLOADS

FEW = 64
"""Busy connections of the cases that are compared with each other."""
WIRE = "json"
MOST_CONNECTIONS = 20_000
"""Bound on all connections together, below the number of local ports."""
MOST_SECONDS = 20
"""Bound on one measurement, so that no idle connection reaches the server's `idle_timeout` of 75 s."""
_SPARE_FILES = 300
_WARM_UP = 0.5
_WARM_UP_A_CONNECTION = 0.001
"""Connections beyond the listener's backlog are tried again after a second."""
_SAMPLE_SECONDS = 0.25

Line = dict[str, Any]


class Peak:
    """The most memory of a server while a block runs."""

    def __init__(self, server: Server) -> None:
        self._server, self._end = server, threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.megabytes = 0.0

    def _sample(self) -> None:
        while not self._end.wait(_SAMPLE_SECONDS):
            self.megabytes = max(self.megabytes, self._server.memory_mb())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@contextmanager
def idle_connections(call: loader.Call, count: int) -> Iterator[list[HTTPConnection]]:
    """Connections that have each had one response, and send nothing more."""
    body, headers = call.body.read_bytes(), dict(header.split(": ", 1) for header in call.headers)
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = HTTPConnection(call.address, timeout=10)
            stack.callback(connection.close)
            connection.request("POST", call.path, body, headers)
            connection.getresponse().read()
            connections.append(connection)
        yield connections


def closed(connections: Sequence[HTTPConnection]) -> int:
    """The number of connections that the server has closed."""
    return sum(not _is_open(connection.sock) for connection in connections)


def _is_open(sock: socket.socket | None) -> bool:
    if sock is None:
        return False
    sock.setblocking(False)
    try:
        return bool(sock.recv(1))
    except BlockingIOError:
        return True


class Scale:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.workload = WORKLOADS["m1b"]
        self.faults: list[str] = []

    def started(self, system: System, copies: int = 0) -> Server:
        """A server, to be entered, with further models and room for all requests in the queue."""
        environment = {"BENCH_COPIES": str(copies), "BENCH_MAX_QUEUE": str(MOST_CONNECTIONS)}
        system = replace(system, environment=environment)
        return Server(system, self.workload, wires=(WIRE,), work=ROOT / "bench-data")

    def measure(self, server: Server, connections: int, where: str) -> Line:
        """One measurement; its errors are faults."""
        warm_up = _WARM_UP + connections * _WARM_UP_A_CONNECTION
        line = server.measure(WIRE, connections, seconds=self.options.seconds, warm_up=warm_up)
        if line["errors"] or line["different"]:
            self.faults.append(f"{where}: {line['codes']} {line['first_error'] or ''}, {line['different']} different")
        print(f"{where}: {line['rps']:,.0f}/s, {line['server_cpu_us']} us", file=sys.stderr, flush=True)
        return line

    def connections(self, system: System) -> dict[str, Line]:
        """The cases of connections, by name."""
        busy, idle = self.options.busy, self.options.idle
        few, many, both = f"{FEW:,} busy", f"{busy:,} busy", f"{FEW:,} busy, {idle:,} idle"
        found = {}
        with self.started(system) as server:
            found[few] = self.measure(server, FEW, f"{system.name}, {few}")
            before = server.memory_mb()
            with idle_connections(server.call(WIRE), idle) as connections:
                kilobytes = (server.memory_mb() - before) / idle * 1000
                found[both] = self.measure(server, FEW, f"{system.name}, {both}") | {"kilobytes": kilobytes}
                if lost := closed(connections):
                    self.faults.append(f"{system.name}: {lost:,} of {idle:,} idle connections were closed")
        with self.started(system) as server:
            server.measure(WIRE, FEW, seconds=_WARM_UP, warm_up=0)
            before = server.memory_mb()
            with Peak(server) as peak:
                found[many] = self.measure(server, busy, f"{system.name}, {many}")
            found[many]["kilobytes"] = (peak.megabytes - before) / max(busy - FEW, 1) * 1000
        return {case: found[case] for case in (few, many, both)}

    def models(self, counts: Sequence[int]) -> dict[int, list[Line]]:
        """Measurements by the number of loaded models, one of which gets all requests."""
        found: dict[int, list[Line]] = {count: [] for count in counts}
        with ExitStack() as stack:
            servers = {}
            for count in counts:
                system = replace(SYSTEMS["penstock"], name=f"penstock-{count}")
                servers[count] = stack.enter_context(self.started(system, count - 1))
            for _ in range(self.options.repeats):
                for count, server in servers.items():
                    found[count].append(self.measure(server, FEW, f"{count:,} models") | server.footprint)
        return found


def _middle(lines: Sequence[Line], key: str) -> float:
    return median(float(line[key]) for line in lines)


def _cells(lines: Sequence[Line]) -> str:
    times = f"{_middle(lines, 'p50_us') / 1000:.2f} | {_middle(lines, 'p99_us') / 1000:.2f}"
    return f"{_middle(lines, 'rps'):,.0f} | {times} | {_middle(lines, 'server_cpu_us'):.1f}"


def connection_table(turns: Mapping[str, Sequence[dict[str, Line]]]) -> str:
    """Markdown: medians of all turns, and each server's shares of the echo's in the same turn."""
    rows = [
        "| server | connections | requests/s | p50 ms | p99 ms | server CPU us/request | of the echo: rate | CPU "
        "| KB/connection |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, found in turns.items():
        for case in found[0]:
            lines = [turn[case] for turn in found]
            pairs = list(zip(lines, (turn[case] for turn in turns[ECHO]), strict=True))
            shares = (median(own[key] / echo[key] for own, echo in pairs) for key in ("rps", "server_cpu_us"))
            memory = f"{_middle(lines, 'kilobytes'):.1f}" if "kilobytes" in lines[0] else ""
            rows.append(f"| {name} | {case} | {_cells(lines)} | {' | '.join(f'{s:.2f}' for s in shares)} | {memory} |")
    return "\n".join(rows)


def model_table(found: Mapping[int, Sequence[Line]]) -> str:
    """Markdown: medians of all turns; memory relative to the first row."""
    rows = [
        "| models | requests/s | p50 ms | p99 ms | server CPU us/request | start s | KB/model |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    first = next(iter(found))
    for count, lines in found.items():
        # Not that at the start, when fewer servers shared the libraries' pages.
        more = (_middle(lines, "memory_mb") - _middle(found[first], "memory_mb")) * 1000
        memory = f"{more / (count - first):.0f}" if count != first else ""
        rows.append(f"| {count:,} | {_cells(lines)} | {lines[0]['start_seconds']:.2f} | {memory} |")
    return "\n".join(rows)


def _allow_files(connections: int) -> None:
    """Raises this process's limit of open files, which the servers and the loader inherit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemExit(f"{connections:,} connections need {needed:,} open files; the hard limit is {hard:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.load.scale", description=__doc__)
    parser.add_argument("--busy", type=int, default=2000, help="connections with a request each (%(default)s)")
    parser.add_argument("--idle", type=int, default=10_000, help="connections without a request (%(default)s)")
    parser.add_argument("--models", default="1,100,1000", help="numbers of loaded models (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3, help="of one measurement (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each server (%(default)s)")
    options = parser.parse_args()
    options.models = [int(count) for count in options.models.split(",") if count]
    if options.busy < 1 or options.idle < 1 or options.busy + options.idle > MOST_CONNECTIONS:
        parser.error(f"--busy and --idle: at least 1 each, and at most {MOST_CONNECTIONS:,} together")
    if not 0 < options.seconds <= MOST_SECONDS:
        parser.error(f"--seconds: more than 0, and at most {MOST_SECONDS}")
    return options


def main() -> int:
    """The command line."""
    options = _options()
    _allow_files(options.busy + options.idle)
    loader.build()
    facts, scale = provenance(), Scale(options)
    turns: dict[str, list[dict[str, Line]]] = {name: [] for name in (ECHO, "penstock")}
    for _ in range(options.repeats):
        for name, found in turns.items():
            found.append(scale.connections(SYSTEMS[name]))
    print(f"{facts['machine']}; commit {facts['commit']}{' with changes' * facts['modified']}; {facts['date']}\n")
    print(connection_table(turns))
    if options.models:
        print(f"\n{model_table(scale.models(options.models))}")
    for fault in scale.faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    return 1 if scale.faults else 0


if __name__ == "__main__":
    sys.exit(main())
