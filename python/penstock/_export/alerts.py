"""Alerts on the server's metrics that need no objective."""

from __future__ import annotations

from typing import Any

from penstock._export.rules import alert_rule

__all__ = ["group"]


def group() -> dict[str, Any]:
    """The group of the alerts."""
    return {"name": "penstock", "rules": [*_models(), *_server()]}


def _models() -> list[dict[str, Any]]:
    model = "{{ $labels.model }} {{ $labels.version }} on {{ $labels.instance }}"
    return [
        alert_rule(
            "PenstockModelNotReady",
            "penstock_ready == 0",
            # As long as the startup probe of exported manifests gives models to load.
            lasts="10m",
            severity="page",
            summary=f"{model} accepts no requests",
            description="It is loading, its load failed, or it was set not ready. The repository index has the reason.",
        ),
        alert_rule(
            "PenstockProcessesRestart",
            "sum by (job, instance, model, version) (increase(penstock_restarts_total[10m])) > 3",
            severity="page",
            summary=f"Processes of {model} restart again and again",
            description="More than 3 restarts in 10 minutes; penstock_restarts_total and the log have the reasons.",
        ),
        alert_rule(
            "PenstockQueueRises",
            "deriv(penstock_queue_depth[10m]) > 0 and min_over_time(penstock_queue_depth[10m]) > 0",
            lasts="5m",
            severity="ticket",
            summary=f"The queue of {model} rises",
            description="For 10 minutes it has not been empty, and it grows: more comes than is computed.",
        ),
        alert_rule(
            "PenstockModelStalled",
            "min_over_time(penstock_in_flight[10m]) > 0 and increase(penstock_compute_seconds_count[10m]) == 0 "
            "unless increase(penstock_response_gap_seconds_count[10m]) > 0",
            lasts="5m",
            severity="page",
            summary=f"{model} has requests and ends no batch",
            description="No batch ended in 10 minutes and no stream had a response: a handler hangs, or is as slow.",
        ),
    ]


def _server() -> list[dict[str, Any]]:
    where = "{{ $labels.instance }}"
    return [
        alert_rule(
            "PenstockInterpreterBusy",
            # Models in processes have an interpreter each.
            "sum by (job, instance) (rate(penstock_gil_held_seconds_total[5m]) unless penstock_processes) > 0.9 "
            "unless on (job, instance) penstock_build_info{gil='off'}",
            lasts="10m",
            severity="ticket",
            summary=f"The GIL of {where} is the bottleneck",
            description="It is held for more than 0.9 of the time, so further threads do not help: use Processes(n).",
        ),
        alert_rule(
            "PenstockCertificateExpires",
            "penstock_tls_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
            severity="ticket",
            summary=f"The certificate {{{{ $labels.name }}}} of {where} expires within 14 days",
            description="{{ $value | humanizeDuration }} are left. A renewed file is read without a restart.",
        ),
        alert_rule(
            "PenstockCertificateReloadFails",
            "increase(penstock_tls_reloads_total{outcome='error'}[1h]) > 0",
            severity="ticket",
            summary=f"A changed certificate of {where} could not be used",
            description="The server goes on with the old one. The log has the reason.",
        ),
        alert_rule(
            "PenstockSpansDropped",
            "increase(penstock_spans_dropped_total[15m]) > 0",
            severity="ticket",
            summary=f"{where} drops spans",
            description="The collector refuses them or is too slow: traces have gaps.",
        ),
        alert_rule(
            "PenstockLogLinesDropped",
            "increase(penstock_log_dropped_total[15m]) > 0",
            severity="ticket",
            summary=f"{where} drops lines of the access log",
            description="What reads the server's standard error is too slow.",
        ),
        alert_rule(
            "PenstockRequestsDenied",
            "sum by (job, instance) (rate(penstock_refused_total{reason=~'forbidden|unauthenticated'}[5m])) > 1",
            lasts="5m",
            severity="ticket",
            summary=f"{where} denies many requests",
            description="More than one a second is refused by access rules: a wrong key, or somebody who tries keys.",
        ),
        alert_rule(
            "PenstockRequestMemoryLow",
            "penstock_body_bytes / penstock_body_limit_bytes > 0.8",
            lasts="5m",
            severity="ticket",
            summary=f"Requests fill the memory of {where}",
            description="Requests hold more than 80 % of max_inflight_bytes; at 100 % further ones get 429.",
        ),
    ]
