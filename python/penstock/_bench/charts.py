"""Charts as SVG. Colours are of the page's style, which has a light and a dark one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Bars", "Line", "bar_chart", "line_chart", "log_ticks", "nice_ticks"]

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 44

Point = tuple[float, float, str]
"""Position, and text shown at it."""


@dataclass(frozen=True)
class Line:
    """A line of a chart: its name, points, and number among the colours."""

    name: str
    points: Sequence[Point]
    colour: int
    is_dashed: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars: lowest and highest x, y, and text of each."""

    bars: Sequence[tuple[float, float, float, str]]
    colour: int = 0


@dataclass(frozen=True)
class Axis:
    """An axis: title and ticks, each with its label; logarithmic or linear."""

    title: str
    ticks: Sequence[tuple[float, str]]
    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        """Position of a value, from 0 to 1."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5


def nice_ticks(high: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to `high` or above."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return [index * step for index in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten around a range above 0; powers of ten only, if it is wide."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1,) if last - first > 3 else (1, 2, 5)
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    below = max((tick for tick in ticks if tick <= low), default=ticks[0])
    above = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    # A range within one tick needs two.
    above = above if above > below else ticks[ticks.index(below) + 1]
    return [tick for tick in ticks if below <= tick <= above]


def linear_axis(title: str, high: float) -> Axis:
    """An axis from 0."""
    ticks = nice_ticks(high)
    return Axis(title, [(tick, _number(tick)) for tick in ticks], 0.0, ticks[-1])


def log_axis(title: str, low: float, high: float) -> Axis:
    """A logarithmic axis."""
    ticks = log_ticks(low, high)
    return Axis(title, [(tick, _number(tick)) for tick in ticks], ticks[0], ticks[-1], is_log=True)


def line_chart(name: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """A chart of lines, each with its points marked."""
    parts = []
    for line in lines:
        at = [(_x(x, point[0]), _y(y, point[1]), point[2]) for point in line.points]
        path = " ".join(f"{'M' if not index else 'L'}{px:.1f} {py:.1f}" for index, (px, py, _) in enumerate(at))
        dashed = " dashed" if line.is_dashed else ""
        parts.append(f'<path class="line c{line.colour}{dashed}" d="{path}"/>')
        radius = 2.5 if line.is_dashed else 4
        parts += [
            f'<circle class="dot c{line.colour}{dashed}" cx="{px:.1f}" cy="{py:.1f}" r="{radius}">'
            f"<title>{escape(text)}</title></circle>"
            for px, py, text in at
        ]
    return _chart(name, x, y, parts) + _legend([(line.name, line.colour, line.is_dashed) for line in lines])


def bar_chart(name: str, x: Axis, y: Axis, bars: Bars) -> str:
    """A chart of bars between two positions each."""
    parts = []
    for low, high, value, text in bars.bars:
        left, right, top = _x(x, low), _x(x, high), _y(y, value)
        width = max(right - left - 1, 1)
        parts.append(
            f'<rect class="bar c{bars.colour}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{escape(text)}</title></rect>'
        )
    return _chart(name, x, y, parts)


def _chart(name: str, x: Axis, y: Axis, parts: Sequence[str]) -> str:
    frame = []
    for value, label in y.ticks:
        at = _y(y, value)
        frame.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        frame.append(f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(label)}</text>')
    for value, label in x.ticks:
        at = _x(x, value)
        # A label in the middle of the right end would be cut.
        anchor = "end" if at > WIDTH - RIGHT - 1 and len(label) > 3 else "middle"
        shifted = at + RIGHT if anchor == "end" else at
        frame.append(
            f'<text class="tick" x="{shifted:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="{anchor}">'
            f"{escape(label)}</text>"
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    frame += [
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>',
        f'<text class="title" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(x.title)}</text>",
        f'<text class="title" x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">'
        f"{escape(y.title)}</text>",
    ]
    body = "".join([*frame, *parts])
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">{body}</svg>'


def _legend(names: Sequence[tuple[str, int, bool]]) -> str:
    items = (
        f'<span class="key"><i class="swatch c{colour}{" dashed" if is_dashed else ""}"></i>{escape(name)}</span>'
        for name, colour, is_dashed in names
    )
    return f'<p class="legend">{"".join(items)}</p>'


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:g}k" if value < 1e6 else f"{value / 1e6:g}M"
    return f"{value:.4g}"
