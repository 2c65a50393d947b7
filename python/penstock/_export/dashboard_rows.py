"""Rows of the dashboard: titles and panels."""

from __future__ import annotations

from collections.abc import Sequence

from penstock._export.panels import Panel, Query

__all__ = ["COLLAPSED", "PLACE", "ROWS"]

PLACE = "job=~'$job',instance=~'$instance'"
"""Matchers of the chosen servers."""
_MODEL = f"{PLACE},model=~'$model'"
_FAILED = f"{_MODEL},outcome!='ok'"
_WITHIN = "[$__rate_interval]"


def _rate(metric: str, by: str, labels: str = _MODEL) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}{_WITHIN}))"


def _quantile(share: float, metric: str, by: str = "") -> str:
    buckets = f"sum by (le{', ' + by if by else ''}) (rate({metric}_bucket{{{_MODEL}}}{_WITHIN}))"
    return f"histogram_quantile({share}, {buckets})"


def _quantiles(metric: str, exemplars: bool = False) -> Sequence[Query]:
    return [Query(_quantile(share, metric), f"p{share * 100:g}", exemplars) for share in (0.5, 0.95, 0.99)]


def _mean(metric: str, by: str) -> str:
    return f"{_rate(f'{metric}_sum', by)} / {_rate(f'{metric}_count', by)}"


_TRAFFIC = [
    Panel("Requests", [Query(_rate("penstock_requests_total", "model"), "{{model}}")], "reqps"),
    Panel("Requests by protocol", [Query(_rate("penstock_requests_total", "protocol"), "{{protocol}}")], "reqps"),
    Panel("In flight", [Query(f"sum by (model) (penstock_in_flight{{{_MODEL}}})", "{{model}}")]),
]
_READY = [
    Panel(
        "Ready versions",
        [Query(f"sum by (model, version) (penstock_ready{{{_MODEL}}})", "{{model}} {{version}}")],
        kind="stat",
        width=12,
        description="Servers on which the version accepts requests.",
    ),
    Panel(
        "Builds",
        [Query(f"count by (version, python, gil) (penstock_build_info{{{PLACE}}})", "{{version}}, Python {{python}}")],
        kind="stat",
        width=12,
    ),
]
_ERRORS = [
    Panel(
        "Errors",
        [Query(_rate("penstock_requests_total", "outcome", _FAILED), "{{outcome}}")],
        "reqps",
        stacked=True,
    ),
    Panel(
        "Share of errors",
        [
            Query(
                f"{_rate('penstock_requests_total', 'model', _FAILED)} / {_rate('penstock_requests_total', 'model')}",
                "{{model}}",
            )
        ],
        "percentunit",
    ),
    Panel(
        "Refused before the model was known",
        [Query(_rate("penstock_refused_total", "reason", PLACE), "{{reason}}")],
        "reqps",
        stacked=True,
    ),
]
_LATENCY = [
    Panel(
        "Latency",
        [Query(f"sum by (le) (increase(penstock_request_seconds_bucket{{{_MODEL}}}{_WITHIN}))", exemplars=True)],
        "s",
        kind="heatmap",
        width=12,
    ),
    Panel("Latency, percentiles", _quantiles("penstock_request_seconds", exemplars=True), "s", width=12),
]
_STREAMS = [
    Panel("First response", _quantiles("penstock_first_response_seconds"), "s"),
    Panel("Gap between responses", _quantiles("penstock_response_gap_seconds"), "s"),
    Panel(
        "Responses a second of a stream, median",
        [Query(_quantile(0.5, "penstock_stream_responses_per_second", "model"), "{{model}}")],
        description="From the first response to the last, pauses for slow clients included.",
    ),
]
_LENGTHS = [
    Panel("Responses of a stream", _quantiles("penstock_stream_responses")),
    Panel("Tokens of a prompt", _quantiles("penstock_request_prompt_tokens")),
    Panel("Tokens of a completion", _quantiles("penstock_request_completion_tokens")),
]
_TOKENS = [
    Panel(
        "Tokens a second",
        [
            Query(_rate("penstock_prompt_tokens_total", "model"), "prompts, {{model}}"),
            Query(_rate("penstock_completion_tokens_total", "model"), "completions, {{model}}"),
        ],
        width=12,
        description="Tokens that handlers record, counted at the end of their requests.",
    ),
    Panel(
        "Completed tokens a second of a request, median",
        [Query(_quantile(0.5, "penstock_completion_tokens_per_second", "model"), "{{model}}")],
        width=12,
    ),
]
_STAGES = [
    Panel(
        "Mean time by stage",
        [
            Query(_mean(f"penstock_{stage}_seconds", "job"), stage.replace("_", " "))
            for stage in ("queue", "batch_wait", "compute", "encode")
        ],
        "s",
        description="Queue and encode are per request, batch wait and compute per batch.",
        stacked=True,
    ),
    Panel("Compute, percentiles", _quantiles("penstock_compute_seconds", exemplars=True), "s"),
    Panel("Queue, percentiles", _quantiles("penstock_queue_seconds"), "s"),
]
_QUEUE = [
    Panel("Queue depth", [Query(f"sum by (model) (penstock_queue_depth{{{_MODEL}}})", "{{model}}")]),
    Panel("Rows in a batch, mean", [Query(_mean("penstock_batch_size", "model"), "{{model}}")]),
    Panel("Batches by reason", [Query(_rate("penstock_batches_total", "reason"), "{{reason}}")], "ops", stacked=True),
]
_WASTE = [
    Panel("Abandoned requests", [Query(_rate("penstock_abandoned_total", "model"), "{{model}}")], "reqps"),
    Panel(
        "Handler time for nobody", [Query(_rate("penstock_wasted_seconds_total", "model"), "{{model}}")], "percentunit"
    ),
    Panel(
        "Cache hits",
        [
            Query(
                f"{_rate('penstock_cache_hits_total', 'model')} / ({_rate('penstock_cache_hits_total', 'model')} + "
                f"{_rate('penstock_cache_misses_total', 'model')})",
                "{{model}}",
            )
        ],
        "percentunit",
    ),
]
_INTERPRETER = [
    Panel(
        "Busy instances",
        [Query(_rate("penstock_handler_seconds_total", "model"), "{{model}}")],
        description="Average number of instances in their handlers.",
    ),
    Panel(
        "GIL held",
        [Query(_rate("penstock_gil_held_seconds_total", "model"), "{{model}}")],
        "percentunit",
        description="Near 100 % of one interpreter, threads do not help. Models in processes have an interpreter each.",
        stacked=True,
    ),
    Panel(
        "GIL held outside handlers",
        [Query(_rate("penstock_boundary_seconds_total", "model"), "{{model}}")],
        "percentunit",
    ),
]
_PROCESSES = [
    Panel("Processes that take batches", [Query(f"sum by (model) (penstock_processes{{{_MODEL}}})", "{{model}}")]),
    Panel(
        "Restarts",
        [
            Query(
                f"sum by (model, reason) (increase(penstock_restarts_total{{{_MODEL}}}{_WITHIN}))",
                "{{model}}: {{reason}}",
            )
        ],
        stacked=True,
    ),
    Panel("Processor time of servers", [Query(_rate("process_cpu_seconds_total", "instance", PLACE), "{{instance}}")]),
]
_CONNECTIONS = [
    Panel("Connections", [Query(f"sum by (instance) (penstock_connections{{{PLACE}}})", "{{instance}}")]),
    Panel(
        "TLS handshakes",
        [Query(_rate("penstock_tls_handshakes_total", "outcome, version", PLACE), "{{outcome}} {{version}}")],
        "ops",
    ),
    Panel(
        "Validity of certificates left",
        [Query(f"min by (name) (penstock_tls_certificate_expiry_timestamp_seconds{{{PLACE}}}) - time()", "{{name}}")],
        "s",
    ),
]
_MEMORY = [
    Panel(
        "Requests and responses",
        [
            Query(f"sum by (instance) (penstock_body_bytes{{{PLACE}}})", "requests, {{instance}}"),
            Query(f"sum by (instance) (penstock_answer_bytes{{{PLACE}}})", "unsent responses, {{instance}}"),
            Query(f"max(penstock_body_limit_bytes{{{PLACE}}})", "limit of each"),
        ],
        "bytes",
    ),
    Panel(
        "Memory",
        [
            Query(f"sum by (instance) (process_resident_memory_bytes{{{PLACE}}})", "resident, {{instance}}"),
            Query(f"sum by (instance) (penstock_memory_used_bytes{{{PLACE}}} > 0)", "control group, {{instance}}"),
            Query(f"max(penstock_memory_limit_bytes{{{PLACE}}} > 0)", "limit of the control group"),
        ],
        "bytes",
    ),
    Panel(
        "Open files",
        [
            Query(f"sum by (instance) (process_open_fds{{{PLACE}}})", "{{instance}}"),
            Query(f"min(process_max_fds{{{PLACE}}})", "limit"),
        ],
    ),
]

ROWS: Sequence[tuple[str, Sequence[Sequence[Panel]]]] = [
    ("Traffic", [_TRAFFIC, _READY]),
    ("Errors", [_ERRORS]),
    ("Latency", [_LATENCY]),
    ("Streams and tokens", [_STREAMS, _LENGTHS, _TOKENS]),
    ("Queue and batches", [_STAGES, _QUEUE, _WASTE]),
    ("Interpreter", [_INTERPRETER]),
    ("Processes and restarts", [_PROCESSES]),
    ("Connections and TLS", [_CONNECTIONS]),
    ("Memory", [_MEMORY]),
]
COLLAPSED = {"Streams and tokens"}
"""Titles of rows of metrics that most models lack: they query nothing until they are opened."""
