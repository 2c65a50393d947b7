"""Runs systems against workloads in turns, so that ratios are of numbers from the same minutes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.load import loader
from benches.load.machine import ROOT, provenance
from benches.load.server import Server, StartFailed
from benches.load.systems import LIMITS, System
from benches.load.workloads import Workload

_SHORT_WARM_UP = 0.3
"""Seconds before rounds other than the first."""


@dataclass(frozen=True)
class Settings:
    """Durations, repeats and the output folder of a run."""

    out: Path
    seconds: float = 3
    warm_up: float = 1
    repeats: int = 3
    wires: tuple[str, ...] = ()
    """The wire formats; all of a workload's if empty."""
    connections: tuple[int, ...] = ()
    """The numbers of connections; a workload's own if empty."""
    work: Path = ROOT / "bench-data"
    """Folder of bodies, responses and logs."""


@dataclass
class Run:
    """Results of one run, written line by line."""

    settings: Settings
    about: dict[str, Any] = field(default_factory=provenance)
    faults: list[str] = field(default_factory=list)
    """Wrong responses and errors, which invalidate the numbers."""

    def emit(self, kind: str, **line: Any) -> None:
        """Appends one line of results."""
        self.settings.out.parent.mkdir(parents=True, exist_ok=True)
        with self.settings.out.open("a") as out:
            out.write(json.dumps({"kind": kind, **line, **self.about}) + "\n")

    def fault(self, text: str) -> None:
        """Records a problem."""
        self.faults.append(text)
        _say(f"WRONG: {text}")


def run(systems: Sequence[System], workloads: Sequence[Workload], settings: Settings) -> Run:
    """Measures all compatible combinations. Others are skipped with a message."""
    loader.build()
    result = Run(settings)
    for workload in workloads:
        wires = tuple(wire for wire in workload.wires if not settings.wires or wire in settings.wires)
        with ExitStack() as stack:
            servers = []
            for system in systems:
                reason = _unfit(system, workload, wires)
                if reason is not None:
                    _say(f"{system.name}, {workload.name}: left out, {reason}")
                    result.emit("left out", system=system.name, workload=workload.name, reason=reason)
                    continue
                try:
                    server = Server(system, workload, wires=wires, work=settings.work)
                    servers.append(stack.enter_context(server))
                except StartFailed as error:
                    result.fault(f"{system.name}, {workload.name}: did not start: {error}")
                    result.emit("left out", system=system.name, workload=workload.name, reason=str(error))
                else:
                    result.emit("start", system=system.name, workload=workload.name, **server.footprint)
            _check(servers, result)
            _measure(servers, workload, wires, result)
    return result


def _unfit(system: System, workload: Workload, wires: tuple[str, ...]) -> str | None:
    if workload.batching and not (system.batching or workload.unbatched_too):
        return "it has no batcher"
    if not any(wire in system.dialects for wire in wires):
        return f"it does not speak {', '.join(wires)}"
    if system.name in LIMITS and (workload.accelerator or workload.input == "text"):
        return "the model is the limit here, not the server"
    return system.missing()


def _check(servers: Sequence[Server], result: Run) -> None:
    for server in servers:
        for wire in server.wires:
            problem = server.check(wire)
            if problem is not None:
                result.fault(f"{server.system.name}, {server.workload.name}, {wire}: {problem}")


def _measure(servers: Sequence[Server], workload: Workload, wires: tuple[str, ...], result: Run) -> None:
    settings = result.settings
    for wire, connections, turn in _turns(workload, wires, settings):
        for server in servers:
            if wire not in server.wires:
                continue
            warm_up = settings.warm_up if turn == 0 else min(settings.warm_up, _SHORT_WARM_UP)
            counts = server.measure(wire, connections, seconds=settings.seconds, warm_up=warm_up)
            # A batch's size may change the last bits of an embedding.
            if not server.system.same_answers or workload.input == "text":
                counts["different"] = None
            name, dialect = server.system.name, server.system.dialects[wire]
            result.emit(
                "measured",
                system=name,
                workload=workload.name,
                wire=wire,
                dialect=dialect,
                connections=connections,
                turn=turn,
                seconds=settings.seconds,
                **counts,
            )
            _say(
                f"{workload.name} {dialect} c={connections} #{turn} {name}: {counts['rps']:,.0f}/s, "
                f"p50 {counts['p50_us']} us, p99 {counts['p99_us']} us, {counts['errors']} errors"
            )
            _judge(counts, f"{name}, {workload.name}, {dialect}, {connections} connections", workload, result)


def _judge(counts: dict[str, Any], where: str, workload: Workload, result: Run) -> None:
    # An overloaded server may refuse: its workload measures that.
    if counts["errors"] and not workload.rate:
        result.fault(f"{where}: {counts['codes']} {counts['first_error'] or ''}")
    if counts["different"]:
        result.fault(f"{where}: {counts['different']} answers unlike the first")


def _turns(workload: Workload, wires: tuple[str, ...], settings: Settings) -> Iterator[tuple[str, int, int]]:
    for wire in wires:
        for connections in settings.connections or workload.connections:
            for turn in range(settings.repeats):
                yield wire, connections, turn


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
