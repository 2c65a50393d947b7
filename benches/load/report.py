"""Results as Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benches.load.systems import ECHO, SYSTEMS
from benches.load.workloads import WORKLOADS, Workload

Line = dict[str, Any]

_HEAD = (
    "| system | wire | connections | requests/s | spread | of the limit | p50 ms | p99 ms "
    "| server CPU us/request | other load | errors |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)
_FOOTPRINT_HEAD = "| system | start s | idle MB | MB under load | processes |\n|---|--:|--:|--:|--:|"


def report(files: Iterable[Path]) -> str:
    """The tables of all runs in `files`."""
    lines: list[Line] = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    measured = [line for line in lines if line["kind"] == "measured"]
    parts = [_origin(lines)]
    for workload in WORKLOADS.values():
        own = [line for line in measured if line["workload"] == workload.name]
        if own:
            parts.append(f"### {workload.name}: {workload.about}\n\n{_table(workload, own)}")
    parts += _footprint(lines)
    parts += _left_out(lines)
    return "\n\n".join(parts) + "\n"


def _origin(lines: Sequence[Line]) -> str:
    def distinct(values: Iterable[Any]) -> list[str]:
        return list(dict.fromkeys(map(str, values)))

    commits = distinct(f"{line['commit']}{' with changes' if line['modified'] else ''}" for line in lines)
    facts = {
        "Machine": distinct(line["machine"] for line in lines),
        "Commit": commits,
        "Date": distinct(line["date"] for line in lines),
        "Command": [f"`{command}`" for command in distinct(line["command"] for line in lines)],
    }
    about = "".join(f"- {name}: {'; '.join(values)}\n" for name, values in facts.items())
    return (
        f"{about}\nMedians of the turns that servers took one after the other; spread is (largest - smallest) / "
        "median. The limit is the bare echo in the same turn; for a simulated accelerator, its own ceiling. Other "
        "load is what else ran on the machine, in cores: with more than a tenth of one, a row is worth little."
    )


def _table(workload: Workload, lines: Sequence[Line]) -> str:
    def key(line: Line) -> tuple[int, int, int]:
        return workload.wires.index(line["wire"]), line["connections"], list(SYSTEMS).index(line["system"])

    rows = [_HEAD]
    groups: dict[tuple[int, int, int], list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    for _, group in sorted(groups.items()):
        rows.append(_row(workload, group, lines))
    return "\n".join(rows)


def _row(workload: Workload, group: Sequence[Line], lines: Sequence[Line]) -> str:
    first = group[0]
    rates = [line["rps"] for line in group]
    middle = median(rates)
    spread = f"{(max(rates) - min(rates)) / middle:.0%}" if middle else "-"
    cpu = [line["server_cpu_us"] for line in group if line["server_cpu_us"] is not None]
    wire = first["wire"] if first["wire"] == first["dialect"] else f"{first['wire']} ({first['dialect']})"
    cells = [
        first["system"],
        wire,
        f"{first['connections']:,}",
        f"{middle:,.0f}",
        spread,
        _share(workload, group, lines),
        f"{median(line['p50_us'] for line in group) / 1000:,.2f}",
        f"{median(line['p99_us'] for line in group) / 1000:,.2f}",
        f"{median(cpu):,.0f}" if cpu else "-",
        f"{median(line['other_cores'] for line in group):.2f}",
        _errors(workload, group),
    ]
    return f"| {' | '.join(cells)} |"


def _share(workload: Workload, group: Sequence[Line], lines: Sequence[Line]) -> str:
    ceiling = workload.ceiling(group[0]["connections"])
    if ceiling is not None:
        return f"{median(line['rps'] for line in group) / ceiling:.3f}"

    def turn(line: Line) -> tuple[Any, ...]:
        # Different runs are not comparable: they are from different times.
        return line["date"], line["command"], line["wire"], line["connections"], line["turn"]

    echo = {turn(line): line["rps"] for line in lines if line["system"] == ECHO}
    shares = [line["rps"] / echo[turn(line)] for line in group if echo.get(turn(line))]
    return f"{median(shares):.3f}" if shares else "-"


def _errors(workload: Workload, group: Sequence[Line]) -> str:
    codes: Counter[str] = Counter()
    for line in group:
        codes.update(line["codes"])
    bad = {code: count for code, count in codes.items() if not code.startswith("2") and code != "OK"}
    texts = [f"{code}: {count:,}" for code, count in sorted(bad.items())]
    answers = sum(line["answered"] for line in group)
    if workload.leave and answers:
        texts.append(f"computed for each answer: {sum(line['computed'] for line in group) / answers:.2f}")
    different = sum(line["different"] or 0 for line in group)
    if different:
        texts.append(f"unlike the first answer: {different:,}")
    return ", ".join(texts)


def _footprint(lines: Sequence[Line]) -> list[str]:
    rows = [_FOOTPRINT_HEAD]
    for system in SYSTEMS:
        starts = [line for line in lines if line["kind"] == "start" and line["system"] == system]
        loads = [line["memory_mb"] for line in lines if line["kind"] == "measured" and line["system"] == system]
        if starts and loads:
            seconds = median(line["start_seconds"] for line in starts)
            idle = median(line["idle_mb"] for line in starts)
            count = max(line["processes"] for line in starts)
            rows.append(f"| {system} | {seconds:.2f} | {idle:,.0f} | {max(loads):,.0f} | {count} |")
    if len(rows) == 1:
        return []
    return ["### Footprint\n\nFrom the start to the first good answer; memory as PSS.\n\n" + "\n".join(rows)]


def _left_out(lines: Sequence[Line]) -> list[str]:
    rows = [f"- {line['system']}, {line['workload']}: {line['reason']}" for line in lines if line["kind"] == "left out"]
    return ["### Left out\n\n" + "\n".join(dict.fromkeys(rows))] if rows else []
