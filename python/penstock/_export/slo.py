"""Service level objectives: recording rules of error ratios, and alerts on the rate at which they burn the budget.

The alerts are those of the SRE workbook ("Alerting on SLOs", multiwindow and multi-burn-rate). Each has a long window,
so that noise does not fire it, and a short one, so that it ends soon after its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock._export.rules import Severity, alert_rule

__all__ = ["BURNS", "ERRORS", "LATENCY_BUCKETS", "Objective", "groups"]

ERRORS = ("overloaded", "unavailable", "timeout", "handler", "internal")
"""Outcomes that spend the budget of a model: those that a client cannot help."""

_BUCKETS = "0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 30 60"
LATENCY_BUCKETS = tuple(map(Decimal, re.split(" ", _BUCKETS)))
"""Upper bounds of the buckets of `penstock_request_seconds`, in seconds."""


@dataclass(frozen=True, slots=True)
class Burn:
    """A burn rate, with the windows over which it is looked at."""

    factor: Decimal
    long: str
    short: str
    severity: Severity


BURNS = (
    Burn(Decimal("14.4"), "1h", "5m", "page"),
    Burn(Decimal(6), "6h", "30m", "page"),
    Burn(Decimal(1), "3d", "6h", "ticket"),
)
_WINDOWS = ("5m", "30m", "1h", "6h", "3d")

# Calls of models by models are parts of requests.
_CLIENTS = "protocol!='inprocess'"


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective for each model: the share of requests that succeed, and of successes within a latency."""

    percent: Decimal
    latency: Decimal | None = None
    """Seconds, one of LATENCY_BUCKETS."""

    @property
    def budget(self) -> Decimal:
        """The share of requests that may be bad."""
        return (100 - self.percent) / 100


def groups(objective: Objective) -> list[dict[str, Any]]:
    """Groups of recording and alerting rules."""
    kinds = [_Kind("Error", "request_errors", "Requests of {{ $labels.model }} fail", _error_ratio)]
    if (latency := objective.latency) is not None:
        text = f"Requests of {{{{ $labels.model }}}} take longer than {latency} s"
        kinds.append(_Kind("Latency", "slow_requests", text, lambda window: _slow_ratio(latency, window)))
    return [
        {"name": f"penstock-slo-{kind.name.lower()}", "rules": [*_recorded(kind), *_alerts(kind, objective)]}
        for kind in kinds
    ]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of bad requests."""

    name: str
    bad: str
    """Part of the names of recorded series."""
    summary: str
    ratio: Any
    """The expression of their share in a window."""

    def record(self, window: str) -> str:
        return f"penstock:{self.bad}:ratio_rate{window}"


def _error_ratio(window: str) -> str:
    errors, all_ = "|".join(ERRORS), "|".join(("ok", *ERRORS))
    bad = f"sum by (job, model) (rate(penstock_requests_total{{outcome=~'{errors}',{_CLIENTS}}}[{window}]))"
    return f"{bad} / sum by (job, model) (rate(penstock_requests_total{{outcome=~'{all_}',{_CLIENTS}}}[{window}]))"


def _slow_ratio(latency: Decimal, window: str) -> str:
    # The bucket's label is a number of OpenMetrics, which has a fraction.
    bound = f"{latency}" if "." in f"{latency}" else f"{latency}.0"
    fast = f"sum by (job, model) (rate(penstock_request_seconds_bucket{{le='{bound}',{_CLIENTS}}}[{window}]))"
    return f"1 - {fast} / sum by (job, model) (rate(penstock_request_seconds_count{{{_CLIENTS}}}[{window}]))"


def _recorded(kind: _Kind) -> Iterator[dict[str, Any]]:
    for window in _WINDOWS:
        yield {"record": kind.record(window), "expr": kind.ratio(window)}


def _alerts(kind: _Kind, objective: Objective) -> Iterator[dict[str, Any]]:
    for burn in BURNS:
        threshold = f"{(burn.factor * objective.budget).normalize():f}"
        yield alert_rule(
            f"Penstock{kind.name}BudgetBurn",
            f"{kind.record(burn.long)} > {threshold} and {kind.record(burn.short)} > {threshold}",
            severity=burn.severity,
            summary=kind.summary,
            description=(
                f"Over {burn.long} and {burn.short}, the budget of {100 - objective.percent} % is spent more than "
                f"{burn.factor} times as fast as the objective allows."
            ),
            labels={"window": burn.long},
        )
