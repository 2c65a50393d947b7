"""The command line: `python -m benches.load --help`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from benches.load.machine import ROOT, provenance
from benches.load.report import report
from benches.load.runner import Run, Settings, run
from benches.load.systems import SYSTEMS
from benches.load.workloads import WORKLOADS

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status: 1 for errors and wrong answers, never for speed."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "run":
            return _run(options)
        case "smoke":
            return _smoke()
        case "report":
            print(report(options.files))
        case "list":
            _list()
    return 0


def _run(options: argparse.Namespace) -> int:
    defaults = Settings(out=options.out or _fresh("results"))
    settings = Settings(
        out=defaults.out,
        seconds=options.seconds,
        warm_up=options.warm_up,
        repeats=options.repeats,
        wires=tuple(options.wires.split(",")) if options.wires else (),
        connections=tuple(map(int, options.connections.split(","))) if options.connections else (),
    )
    return _finish(run(_chosen(SYSTEMS, options.systems), _chosen(WORKLOADS, options.workloads), settings))


def _smoke() -> int:
    """Checks that the benchmark works; its numbers are meaningless."""
    settings = Settings(out=_fresh("smoke"), seconds=0.5, warm_up=0.2, repeats=1, connections=(8,))
    result = run(_chosen(SYSTEMS, "echo,echo-1,epoll,penstock"), _chosen(WORKLOADS, "m1b"), settings)
    return _finish(result)


def _finish(result: Run) -> int:
    out = result.settings.out
    print(report([out]))
    print(f"raw results: {out}", file=sys.stderr)
    for fault in result.faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    return 1 if result.faults else 0


def _fresh(kind: str) -> Path:
    return ROOT / "bench-data" / kind / f"{time.strftime('%Y%m%dT%H%M%S')}-{provenance()['commit']}.jsonl"


def _chosen(known: Mapping[str, T], names: str) -> list[T]:
    if names == "all":
        return list(known.values())
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in names.split(",")]


def _list() -> None:
    for system in SYSTEMS.values():
        spellings = ", ".join(
            wire if wire == dialect else f"{wire} as {dialect}" for wire, dialect in system.dialects.items()
        )
        print(f"{system.name:10} {spellings}; {system.missing() or 'ready'}")
    print()
    for workload in WORKLOADS.values():
        print(f"{workload.name:7} {workload.about}; {', '.join(workload.wires)} at {workload.connections}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches.load", description="Servers side by side, in turns.")
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("run", help="measure systems under workloads")
    measure.add_argument("systems", help="names with commas between, or all")
    measure.add_argument("workloads", help="names with commas between, or all")
    measure.add_argument("--seconds", type=float, default=3, help="of one measurement (%(default)s)")
    measure.add_argument("--warm-up", type=float, default=1, help="seconds before it (%(default)s)")
    measure.add_argument("--repeats", type=int, default=3, help="turns of each server (%(default)s)")
    measure.add_argument("--wires", help="of json,bin,grpc; all of the workload's by default")
    measure.add_argument("--connections", help="for example 8,64; the workload's own by default")
    measure.add_argument("--out", type=Path, help="the file that results are appended to (bench-data/results/...)")
    commands.add_parser("smoke", help="half a second of the echoes and penstock each, to see that all works")
    shown = commands.add_parser("report", help="print results as Markdown")
    shown.add_argument("files", nargs="+", type=Path)
    commands.add_parser("list", help="what can be measured here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
