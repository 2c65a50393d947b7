"""Charts of a result: throughput and latency, percentiles, histograms, the server's part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from penstock._bench.charts import Axis, Bars, Line, bar_chart, line_chart, linear_axis, log_axis
from penstock._bench.measured import Bucket, quantiles
from penstock._bench.record import Record, latency_name
from penstock._bench.server_statistics import PARTS
from penstock._bench.table import milliseconds, server_ms, step_name

__all__ = ["latency", "load", "server"]

Figure = tuple[str, str]
"""Caption and chart."""

_CURVE = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
_MOST_CURVES = 6
"""Curves in one chart: more cannot be distinguished."""


def load(result: Record) -> list[Figure]:
    """Latency by throughput, and throughput by step."""
    steps = [step for step in result["steps"] if step["median"].get("max")]
    if not steps:
        return []
    names = [latency_name(one) for one in result["percentiles"]][-_MOST_CURVES:]
    lines = [
        Line(
            name,
            [
                (step["median"]["throughput"], step["median"][name], f"{step_name(step)}: {_pair(step, name)}")
                for step in steps
            ],
            colour,
        )
        for colour, name in enumerate(names)
    ]
    lines += [line for colour, name in enumerate(names) if (line := _before(result, name, colour)).points]
    marks = [point for line in lines for point in line.points]
    x = linear_axis("req/s", max(point[0] for point in marks))
    y = log_axis("latency, ms", min(point[1] for point in marks), max(point[1] for point in marks))
    figures = [("Latency by throughput, a point for each step", line_chart("Latency by throughput", x, y, lines))]
    if len(steps) > 1:
        values = [step["rate"] or step["concurrency"] for step in steps]
        steps_axis = log_axis("rate, req/s" if result["loop"] == "open" else "concurrency", min(values), max(values))
        points = [
            (value, step["median"]["throughput"], f"{step_name(step)}: {step['median']['throughput']:,.1f} req/s")
            for value, step in zip(values, steps, strict=True)
        ]
        throughput = linear_axis("req/s", max(point[1] for point in points))
        chart = line_chart("Throughput by step", steps_axis, throughput, [Line("req/s", points, 0)])
        figures.append(("Throughput by step", chart))
    return figures


def latency(result: Record) -> list[Figure]:
    """Percentile curves of some steps, and a histogram of each."""
    steps = _some([step for step in result["steps"] if step["median"].get("max")])
    if not steps:
        return []
    curves = [(step, _buckets(step)) for step in steps]
    lines = []
    for colour, (step, buckets) in enumerate(curves):
        total = sum(count for *_, count in buckets)
        shown = [one for one in _CURVE if (100 - one) / 100 * total >= 1]
        values = quantiles(buckets, [one / 100 for one in shown])
        points = [
            (100 / (100 - one), value / 1e6, f"{step_name(step)}, p{one:g}: {milliseconds(value / 1e6)} ms")
            for one, value in zip(shown, values, strict=True)
        ]
        lines.append(Line(step_name(step), points, colour))
    ticks = [(100 / (100 - one), f"p{one:g}") for one in (50, 90, 99, 99.9, 99.99)]
    furthest = max(line.points[-1][0] for line in lines)
    ticks = ticks[: next((place for place, (at, _) in enumerate(ticks) if at >= furthest), len(ticks)) + 1]
    x = Axis("percentile", ticks, 1.0, ticks[-1][0], is_log=True)
    values = [point[1] for line in lines for point in line.points]
    y = log_axis("latency, ms", min(values), max(values))
    figures = [("Latency by percentile", line_chart("Latency by percentile", x, y, lines))]
    return figures + [_histogram(step, buckets, colour) for colour, (step, buckets) in enumerate(curves)]


def server(result: Record) -> list[Figure]:
    """Mean time by part of the server, and the sizes of batches of some steps."""
    steps = [step for step in result["steps"] if server_ms(step, "queue") is not None]
    if not steps:
        return []
    lines = []
    for colour, part in enumerate(PARTS):
        points = [
            (float(place), server_ms(step, part) or 0.0, f"{step_name(step)}, {_words(part)}: {_part(step, part)}")
            for place, step in enumerate(steps)
        ]
        lines.append(Line(_words(part), points, colour))
    total = [
        (float(place), step["median"].get("mean", 0.0), f"{step_name(step)}, at the client: {_mean(step)}")
        for place, step in enumerate(steps)
    ]
    lines.append(Line("at the client", total, len(PARTS), is_dashed=True))
    every = max(1, (len(steps) + 7) // 8)
    ticks = [(float(place), step_name(step).split()[-1]) for place, step in enumerate(steps) if place % every == 0]
    x = Axis("rate" if result["loop"] == "open" else "concurrency", ticks, 0.0, max(len(steps) - 1.0, 0.0))
    y = linear_axis("mean, ms", max(point[1] for line in lines for point in line.points))
    figures = [("Mean time of a request by part", line_chart("Mean time by part", x, y, lines))]
    return figures + [figure for step in _some(steps) for figure in _batches(step)]


def _before(result: Record, name: str, colour: int) -> Line:
    """The earlier result that this one is compared with; without points if there is none."""
    points = [
        (
            figures["throughput"]["old"],
            figures[name]["old"],
            f"{step_name(step)}, before: {figures['throughput']['old']:,.1f} req/s, "
            f"{name} {milliseconds(figures[name]['old'])} ms",
        )
        for step in result.get("comparison", ())
        if name in (figures := step["figures"]) and "throughput" in figures
    ]
    return Line(f"{name} before", points, colour, is_dashed=True)


def _batches(step: Record) -> Iterator[Figure]:
    sizes: Counter[int] = Counter()
    for one in step["rounds"]:
        for size, count in one["server"]["batch_sizes"] if one["server"] else ():
            sizes[size] += count
    if not sizes:
        return
    largest = max(sizes)
    every = max(1, -(-largest // 8))
    ticks = [(size + 0.5, str(size)) for size in range(every, largest + 1, every)]
    x = Axis("rows of a batch", ticks, 1.0, largest + 1.0)
    y = linear_axis("batches", max(sizes.values()))
    bars = [(float(size), size + 1.0, float(count), f"{size} rows: {count:,}") for size, count in sorted(sizes.items())]
    yield f"Batch sizes, {step_name(step)}", bar_chart("Batch sizes", x, y, Bars(bars))


def _histogram(step: Record, buckets: Sequence[Bucket], colour: int) -> Figure:
    low, high = buckets[0][0] / 1e6, buckets[-1][1] / 1e6
    x = log_axis("latency, ms", max(low, 1e-6), high)
    y = linear_axis("requests", max(count for *_, count in buckets))
    bars = [
        (max(first / 1e6, 1e-6), (last + 1) / 1e6, float(count), f"{milliseconds(first / 1e6)} ms: {count:,}")
        for first, last, count in buckets
    ]
    return f"Histogram, {step_name(step)}", bar_chart("Histogram of latency", x, y, Bars(bars, colour))


def _buckets(step: Record) -> list[Bucket]:
    """The histogram of all rounds, in nanoseconds."""
    counts: Counter[tuple[int, int]] = Counter()
    for one in step["rounds"]:
        for low, high, count in one["histogram_ms"]:
            counts[round(low * 1e6), round(high * 1e6)] += count
    return [(low, high, count) for (low, high), count in sorted(counts.items())]


def _some(steps: Sequence[Record]) -> list[Record]:
    """At most as many steps as one chart has curves: first, last, and some between."""
    if len(steps) <= _MOST_CURVES:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (_MOST_CURVES - 1))] for index in range(_MOST_CURVES)]


def _pair(step: Record, name: str) -> str:
    return f"{step['median']['throughput']:,.1f} req/s, {name} {milliseconds(step['median'][name])} ms"


def _part(step: Record, part: str) -> str:
    return f"{milliseconds(server_ms(step, part))} ms"


def _mean(step: Record) -> str:
    return f"{milliseconds(step['median'].get('mean'))} ms"


def _words(part: str) -> str:
    return part.replace("_", " ")
