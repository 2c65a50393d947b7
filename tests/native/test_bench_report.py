"""Parts of `penstock bench` that need no server: sweeps, quantiles, charts, the report, the progress bar."""

from __future__ import annotations

import io
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from penstock._bench import charts, sweep
from penstock._bench.measured import Bucket, Measured, quantiles, reduced
from penstock._bench.plan import BenchSettings
from penstock._bench.progress import ProgressBar
from penstock._bench.record import round_record, step_record
from penstock._bench.report import html
from penstock._bench.run import Moment
from penstock._bench.server_statistics import ServerPart, difference


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("4", (4,)),
        ("1,2,8", (1, 2, 8)),
        ("1:64", (1, 2, 4, 8, 16, 32, 64)),
        ("3:20", (3, 6, 12, 20)),
        ("10:50:20", (10, 30, 50)),
        ("10:45:20,100", (10, 30, 100)),
        ("5:5", (5,)),
    ],
)
def test_sweeps_are_lists_and_ranges(text: str, steps: tuple[int, ...]) -> None:
    assert sweep.concurrencies(text) == steps
    assert sweep.rates(text) == steps


def test_rates_may_be_fractions() -> None:
    assert sweep.rates("0.5:2,1e3") == (0.5, 1, 2, 1000)
    assert sweep.percentiles("99.9, 50") == (50, 99.9)


def test_quantiles_are_those_of_the_values() -> None:
    values = np.sort(np.random.default_rng(0).lognormal(12, 1, 5000).astype(int))
    buckets = [(int(one), int(one), 1) for one in values]
    shares = [0.0, 0.5, 0.9, 0.99, 0.9999, 1.0]
    expected = np.quantile(values, shares, method="inverted_cdf")
    assert quantiles(buckets, shares) == list(expected)
    short = reduced(buckets)
    assert sum(count for *_, count in short) == 5000
    assert len(short) < 300
    np.testing.assert_allclose(quantiles(short, shares), expected, rtol=1 / 16)
    assert quantiles([], shares) == []


def test_server_part_is_a_difference() -> None:
    def snapshot(scale: int, sizes: dict[int, int]) -> dict[str, Any]:
        names = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
        total = {f"{name}.count": scale for name in names} | {f"{name}.ns": scale * 2_000_000 for name in names}
        return {"total": {"executions": scale, "rows": 3 * scale, **total}, "sizes": sizes}

    before = snapshot(1, Counter({1: 5}))
    part = difference(before, snapshot(5, {1: 5, 4: 3}))
    assert part is not None
    assert (part["succeeded"], part["executions"], part["rows"], part["mean_batch"]) == (4, 4, 12, 3)
    assert part["split_ms"]["queue"] == 2
    assert part["batch_sizes"] == [(4, 3)]
    # A model that was loaded again counts from 0.
    assert difference(snapshot(5, {}), snapshot(1, {})) is None
    assert difference(None, before) is None


def measured(scale: int) -> Measured:
    buckets: list[Bucket] = [(scale * 1000 * index, scale * 1000 * index + 999, 100 // index) for index in range(1, 40)]
    succeeded = sum(count for *_, count in buckets)
    return {
        "seconds": 2.0,
        "succeeded": succeeded,
        "in_time": succeeded,
        "bytes": 10 * succeeded,
        "sizes": (10, 10),
        "late": 0,
        "unsent": 0,
        "latency_sum": 0.001,
        "latency_range": (scale * 1000, scale * 40_000),
        "buckets": buckets,
        "errors": [("overloaded", 429, 2, "<b>full</b>")],
    }


def result(steps: int) -> dict[str, Any]:
    part: ServerPart = {
        "succeeded": 10,
        "failed": 0,
        "executions": 5,
        "rows": 10,
        "mean_batch": 2.0,
        "split_ms": {"queue": 0.5, "compute_input": 0.1, "compute_infer": 1.0, "compute_output": 0.1},
        "batch_sizes": [(1, 2), (4, 2)],
    }
    rounds = [[round_record(measured(step), (50.0, 99.0), part)] * 2 for step in range(1, steps + 1)]
    settings = {"seconds": 2.0, "requests": None, "warmup": 1.0, "repeat": 2, "poisson": False, "timeout": 60.0}
    return {
        "started": "2026-01-01T00:00:00+00:00",
        "url": "http://h",
        "model": "<m>",
        "model_version": None,
        "server": {"name": "penstock", "version": "1"},
        "client": {"version": "1", "processors": 2},
        "loop": "closed",
        "settings": {**settings, "threads": 1, "input_format": "binary"},
        "percentiles": [50.0, 99.0],
        "steps": [step_record(1 << index, False, one) for index, one in enumerate(rounds)],
        "stopped": False,
        "comparison": [
            {
                "concurrency": 1,
                "rate": None,
                "figures": {"throughput": {"new": 1.0, "old": 2.0, "ratio": 0.5, "overlaps": True}},
            }
        ],
    }


class Page(HTMLParser):
    """Tags and text of a page; fails on tags that do not match."""

    VOID = frozenset(["meta"])

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}, "the page loads nothing"
        for name, value in attrs:
            assert not re.search(r"\b(?:nan|inf)\b", value or ""), f"{tag} {name}={value}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("steps", [1, 2, 12])
def test_report_is_one_valid_page(steps: int) -> None:
    page = Page()
    text = html(result(steps))
    page.feed(text)
    page.close()
    assert page.open == []
    assert not re.search(r"https?://(?!h\b)|url\(|@import|<script|<link", text)
    assert page.tags.count("tr") == 1 + steps + 2
    # Curves of at most six steps, in charts, histograms and batch sizes.
    assert page.tags.count("svg") == (2 if steps > 1 else 1) + 1 + min(steps, 6) + 1 + min(steps, 6)
    for shown in ("<m>", "0.500 (ranges overlap)", "4 overloaded (429): <b>full</b>", "Batch sizes, concurrency 1"):
        assert shown in page.text
    assert "<b>" not in text
    assert "prefers-color-scheme: dark" in text


def test_report_without_results_is_a_page() -> None:
    page = Page()
    page.feed(html({**result(1), "steps": [], "stopped": True}))
    assert "Stopped by Ctrl-C" in page.text


def test_ticks_are_round_numbers_around_the_values() -> None:
    assert charts.nice_ticks(0.93) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert charts.nice_ticks(134_000) == [0, 50_000, 100_000, 150_000]
    assert charts.nice_ticks(0) == [0, 1]
    assert charts.log_ticks(0.3, 45) == pytest.approx([0.2, 0.5, 1, 2, 5, 10, 20, 50])
    assert charts.log_ticks(2, 2) == pytest.approx([2, 5])
    assert charts.log_ticks(0.001, 1000) == pytest.approx([0.001, 0.01, 0.1, 1, 10, 100, 1000])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bar_is_for_terminals_only() -> None:
    settings = BenchSettings(steps=(1, 2), is_open=False, seconds=10.0, repeat=2)
    moment = Moment(step=2, round=1, place=3, rounds=4, is_warmup=False, succeeded=1234, failed=5)
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        bar = ProgressBar(stream, settings)
        bar.show(moment)
        bar.clear()
    assert file.getvalue() == ""
    assert "concurrency 2 round 2/2  1,234 requests, 5 errors" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    line = bar.line(moment, 5.0)
    assert line.startswith("█" * 18 + "░" * 2 + "  88%")
    warmup = Moment(step=1, round=0, place=0, rounds=4, is_warmup=True, succeeded=9, failed=0)
    assert bar.line(warmup, 5.0) == "░" * 20 + "   0%  concurrency 1 round 1/2  warm-up"
