"""Rules of Prometheus as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["Severity", "alert_rule"]

Severity = Literal["page", "ticket"]
"""Urgency: at once, or within days."""


def alert_rule(
    name: str,
    expr: str,
    *,
    severity: Severity,
    summary: str,
    description: str,
    lasts: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """An alerting rule.

    Args:
        name: Name of the alert.
        expr: PromQL; each series in its result is an alert.
        severity: Label by which Alertmanager routes it.
        summary: What is wrong, in one line.
        description: What it means, and where to look.
        lasts: Time for which the expression must hold, such as `5m`.
        labels: Further labels.
    """
    return {
        "alert": name,
        "expr": expr,
        **({"for": lasts} if lasts else {}),
        "labels": {"severity": severity, **(labels or {})},
        "annotations": {"summary": summary, "description": description},
    }
