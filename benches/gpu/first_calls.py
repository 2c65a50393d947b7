"""The first and the second call of each batch size, and the first ones of another thread.

cuDNN's plans are made for a shape, and torch keeps them for each thread. So a size that is new to a thread costs more.
"""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from benches.gpu.network import MAX_ROWS, SHAPE, network
from benches.gpu.report import Report

_PER_LINE = 8


@dataclass(frozen=True)
class Calls:
    """Milliseconds of calls of one size."""

    first: float
    first_on_cpu: float
    """Processor time of the calling thread in the first call."""
    second: float
    third: float


def run(report: Report) -> None:
    """Measures all sizes on a thread, and some of them on a second thread."""
    most = 4 if report.cpu else MAX_ROWS
    with ThreadPoolExecutor(1) as thread, ThreadPoolExecutor(1) as other:
        # The largest size comes first, so that the others find memory in torch's cache. It also pays for CUDA's start.
        sizes = [most, *range(1, most)]
        calls = thread.submit(lambda: {rows: _calls(report, rows) for rows in sizes}).result()
        some = [most, *range(1 if report.cpu else 4, most, 4)]
        others = other.submit(lambda: {rows: _calls(report, rows) for rows in some}).result()
    report.table("first calls of sizes, ms", "rows    ", "first, of each", "second, median", "other thread, first")
    for begin in range(1, most + 1, _PER_LINE):
        line = range(begin, min(begin + _PER_LINE, most + 1))
        firsts = " ".join(f"{calls[rows].first:.0f}" for rows in line)
        second = statistics.median(calls[rows].second for rows in line)
        again = " ".join(f"{rows}:{others[rows].first:.1f}" for rows in line if rows in others)
        report.row(f"{line[0]}..{line[-1]}", firsts, second, again)
    for name, found in (("a thread", calls), ("another thread", others)):
        # Without the largest size, whose first call starts CUDA.
        rest = [one for rows, one in found.items() if rows != most]
        medians = {
            key: round(statistics.median(getattr(one, key) for one in rest), 2)
            for key in ("first", "first_on_cpu", "second", "third")
        }
        report.fact(f"medians of {name}, ms", medians)
        report.fact(
            f"first calls of {name}, largest and sum, ms",
            [round(reduced(one.first for one in rest), 1) for reduced in (max, sum)],
        )


def _calls(report: Report, rows: int) -> Calls:
    net = network(report.device)
    images = torch.zeros((rows, *SHAPE), dtype=torch.uint8, device=report.device)

    def call() -> float:
        if not report.cpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        net(images).cpu()
        return (time.perf_counter() - start) * 1000

    busy = time.thread_time()
    first = call()
    return Calls(first, (time.thread_time() - busy) * 1000, call(), call())
