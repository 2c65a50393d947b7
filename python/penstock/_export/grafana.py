"""A dashboard of Grafana over the server's metrics."""

from __future__ import annotations

from typing import Any

from penstock._export.dashboard_rows import COLLAPSED, PLACE, ROWS
from penstock._export.panels import COLUMNS, row

__all__ = ["dashboard"]

_HEIGHT = 8


def dashboard() -> dict[str, Any]:
    """The dashboard, to be imported or provisioned."""
    panels: list[dict[str, Any]] = []
    y = 0
    number = 0
    for title, lines in ROWS:
        number += 1
        heading = row(title, number, y, collapsed=title in COLLAPSED)
        panels.append(heading)
        # Grafana keeps the panels of a collapsed row in it.
        places = heading["panels"] if heading["collapsed"] else panels
        y += 1
        for line in lines:
            x = 0
            for panel in line:
                number += 1
                places.append(panel.placed(number, x, y, _HEIGHT))
                x += panel.width
            assert x <= COLUMNS, title
            y += _HEIGHT
    return {
        "uid": "penstock",
        "title": "Penstock",
        "tags": ["penstock"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": panels,
    }


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    queries = {
        "job": "label_values(penstock_build_info, job)",
        "instance": "label_values(penstock_build_info{job=~'$job'}, instance)",
        "model": f"label_values(penstock_ready{{{PLACE}}}, model)",
    }
    return [source, *(_variable(name, query) for name, query in queries.items())]


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        # At each change of the time range: models come and go.
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "hide": 0,
    }
