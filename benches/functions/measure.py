"""Measurements in turns, so that differences and ratios are of numbers from the same moments."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benches.functions.sides import APPS, PLACES, Question, Running, fastapi, integration, penstock, plain
from benches.load.loader import load

INTEGRATIONS = ("inferless", "modelbit", "openinference")
MOST_ADDED_US = 30
"""Target of the overhead of an integration's call, in microseconds."""
LEAST_TIMES = 10
"""Target of the speed-up over FastAPI's loop."""
ROWS = 10_000
_SHORT_WARM_UP = 0.05
"""Seconds before turns other than the first."""


@dataclass(frozen=True)
class Added:
    """Cost of one kind of call, compared with the plain path."""

    what: str
    place: str
    us: float
    """The p50 latency: the lower quartile of the turns, because other work of the machine only adds to it."""
    plain_us: float
    by_medians_us: float
    """The overhead by the medians of the turns."""
    is_integration: bool

    @property
    def added_us(self) -> float:
        """The overhead in microseconds."""
        return self.us - self.plain_us

    def good(self) -> bool | None:
        """True if the target is met; None without a target."""
        return self.added_us <= MOST_ADDED_US if self.is_integration else None


@dataclass(frozen=True)
class Batch:
    """A batch of rows: results of a handler that loops over them, and of the integration."""

    what: str
    place: str
    fastapi_ms: float
    penstock_ms: float

    def times(self) -> float:
        """The speed-up of the integration."""
        return self.fastapi_ms / self.penstock_ms

    @property
    def has_same_function(self) -> bool:
        """True if FastAPI's handler calls the function of the deployment, not one that was written for rows."""
        return self.what != "score"

    def good(self) -> bool | None:
        """True if the target is met; None without a target."""
        return self.times() >= LEAST_TIMES if self.has_same_function else None


def calls() -> dict[tuple[str, str], Question]:
    """Kinds of calls with one row: three plain models, and the integrations with user code in both places."""
    ways: dict[tuple[str, str], Question] = {}
    for place in PLACES:
        for kind in ("plain", "open", "routed"):
            ways[kind, place] = plain(place, kind)
        for name in INTEGRATIONS:
            ways[name, place] = integration(name, place)
    return ways


def added(running: Running, seconds: float, turns: int) -> list[Added]:
    """Measures one row at a time over one connection: the integrations and the plain path take turns."""
    ways = calls()
    p50 = _in_turns(running, ways, seconds, turns)
    return [_added(name, place, p50) for name, place in ways if name != "plain"]


def _added(name: str, place: str, p50: Mapping[tuple[str, str], Sequence[float]]) -> Added:
    these, those = sorted(p50[name, place]), sorted(p50["plain", place])
    quarter = len(these) // 4
    by_medians = statistics.median(these) - statistics.median(those)
    return Added(name, place, these[quarter], those[quarter], by_medians, name in INTEGRATIONS)


def batch_questions() -> dict[tuple[str, str], Question]:
    """Kinds of calls with a batch: FastAPI's loop, and the integration with user code in both places."""
    ways: dict[tuple[str, str], Question] = {}
    for name, rows, right in _batches():
        body = {"data": rows}
        ways[name, "fastapi"] = Question(fastapi(), f"/{name}", body, right)
        for place in PLACES:
            folder = APPS / "deployments" / name
            server = penstock(f"modelbit-{name}-{place}", folder, f"/v1/{name}", f"isolation={place}")
            ways[name, place] = Question(server, f"/v1/{name}/latest", body, right)
    return ways


def frames_question() -> Question:
    """Rows of `score`. FastAPI's handler creates a frame for each, which takes seconds."""
    rows, right = next((rows, right) for name, rows, right in _batches() if name == "score")
    return Question(fastapi(), "/frames", {"data": rows}, right)


def batches(running: Running, seconds: float, turns: int) -> list[Batch]:
    """Measures batches of rows, one after the other over one connection: the integration and FastAPI take turns."""
    ways = batch_questions()
    p50 = {way: statistics.median(of) / 1e3 for way, of in _in_turns(running, ways, seconds, turns).items()}
    p50["frames", "fastapi"] = running.check(frames_question()) * 1e3
    pairs = [("double", "double"), ("score", "score"), ("frames", "score")]
    return [
        Batch(theirs, place, p50[theirs, "fastapi"], p50[ours, place]) for theirs, ours in pairs for place in PLACES
    ]


def _batches() -> Iterator[tuple[str, list[Any], list[Any]]]:
    numbers = [[row, row / 8] for row in range(ROWS)]
    yield "double", numbers, [[row, number * 2] for row, number in numbers]
    customers = [
        [row, {"age": 20.0 + row % 60, "income": row % 97 / 4, "visits": row % 31 / 1, "spent": row % 211 / 8}]
        for row in range(ROWS)
    ]
    yield "score", customers, [[row, _score(one)] for row, one in customers]


def _score(customer: Mapping[str, float]) -> float:
    """The function of apps/deployments/score, without numpy."""
    values = [customer[name] for name in ("age", "income", "visits", "spent")]
    first = [[(-1 + 2 * (16 * row + column) / 63) / 40 for column in range(16)] for row in range(4)]
    hidden = [math.tanh(sum(value * first[row][column] for row, value in enumerate(values))) for column in range(16)]
    return 1 / (1 + math.exp(-sum(one * (1 - 2 * place / 15) for place, one in enumerate(hidden))))


def _in_turns(
    running: Running, ways: Mapping[tuple[str, str], Question], seconds: float, turns: int
) -> dict[tuple[str, str], list[float]]:
    """The p50 latencies of each, in microseconds, one per turn."""
    for question in ways.values():
        running.check(question)
    found: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    order = random.Random(turns)
    for turn in range(turns):
        # In a different order each time, so that the order does not affect a result.
        for way, question in order.sample(list(ways.items()), len(ways)):
            warm_up = seconds if turn == 0 else _SHORT_WARM_UP
            counts = load(running.call(question), connections=1, seconds=seconds, warm_up=warm_up)
            if counts["errors"] or counts["different"] or not counts["p50_us"]:
                raise RuntimeError(f"{way}: {counts['codes']} {counts['first_error'] or 'changing answers'}")
            found[way].append(counts["p50_us"])
    return found
