"""Panels of a Grafana dashboard as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["COLUMNS", "Panel", "Query", "row"]

COLUMNS = 24
"""Columns of Grafana's grid."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the legend of its series."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel that is not placed yet."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: Literal["timeseries", "heatmap", "stat"] = "timeseries"
    width: int = 8
    description: str = ""
    stacked: bool = False

    def placed(self, number: int, x: int, y: int, height: int) -> dict[str, Any]:
        """The panel at a place of the grid."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            **({"description": self.description} if self.description else {}),
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": height},
            "targets": [self._target(index, query) for index, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": _OPTIONS[self.kind](self.unit),
        }

    def _target(self, index: int, query: Query) -> dict[str, Any]:
        return {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": "{{le}}" if self.kind == "heatmap" else query.legend or "__auto",
            "range": self.kind != "stat",
            "instant": self.kind == "stat",
            "format": "heatmap" if self.kind == "heatmap" else "time_series",
            "exemplar": query.exemplars,
        }

    def _defaults(self) -> dict[str, Any]:
        if self.kind == "heatmap":
            return {}
        if self.kind == "stat":
            return {"unit": self.unit}
        stacking = {"mode": "normal" if self.stacked else "none", "group": "A"}
        custom = {
            "drawStyle": "line",
            "fillOpacity": 20 if self.stacked else 0,
            "showPoints": "never",
            "stacking": stacking,
        }
        return {"unit": self.unit, "min": 0, "custom": custom}


def row(title: str, number: int, y: int, *, collapsed: bool = False) -> dict[str, Any]:
    """The heading of the panels that follow, or that it has where it is collapsed."""
    position = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": collapsed, "gridPos": position, "panels": []}


def _timeseries(_: str) -> dict[str, Any]:
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _heatmap(unit: str) -> dict[str, Any]:
    return {
        # The buckets are those of the metric.
        "calculate": False,
        "yAxis": {"axisPlacement": "left", "unit": unit},
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False},
    }


def _stat(_: str) -> dict[str, Any]:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    }


_OPTIONS = {"timeseries": _timeseries, "heatmap": _heatmap, "stat": _stat}
