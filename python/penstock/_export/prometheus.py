"""Rules of Prometheus, as a file and as a resource of the Prometheus Operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock._export import alerts, slo

__all__ = ["resource", "rules"]


def rules(objective: slo.Objective | None) -> dict[str, Any]:
    """A rules file, with alerts on an objective if there is one."""
    return {"groups": [alerts.group(), *(slo.groups(objective) if objective else [])]}


def resource(
    objective: slo.Objective | None, name: str, namespace: str | None, labels: Mapping[str, str]
) -> dict[str, Any]:
    """The rules as a PrometheusRule."""
    metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {**metadata, **({"labels": dict(labels)} if labels else {})},
        "spec": rules(objective),
    }
