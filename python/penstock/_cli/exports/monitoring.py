"""`penstock export prometheus` and `penstock export grafana`: rules and a dashboard for the server's metrics."""

from __future__ import annotations

import argparse
import json
import re
from decimal import Decimal
from typing import Any

from penstock._export import grafana, prometheus, slo, yaml_text
from penstock.errors import StartupError

__all__ = ["KINDS", "add_parsers", "run"]

KINDS = ("prometheus", "grafana")

_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_LABEL = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9./_-]*[A-Za-z0-9])?)=([A-Za-z0-9._-]*)")


def add_parsers(kinds: Any) -> None:
    """Adds both kinds to the parser of `penstock export`."""
    rules = kinds.add_parser(
        "prometheus",
        allow_abbrev=False,
        help="alerting rules of Prometheus",
        description="Prints a rules file for Prometheus: alerts on the metrics of servers, and on an objective.",
    )
    rules.add_argument(
        "--slo",
        metavar="PERCENT",
        type=_percent,
        help="objective of each model: the share of requests that succeed, 99.9",
    )
    rules.add_argument(
        "--latency",
        metavar="TIME",
        type=_latency,
        help="with --slo: also the share of successful requests within this time, 250ms; a bucket of the metric",
    )
    rules.add_argument("--operator", action="store_true", help="a PrometheusRule of the Prometheus Operator")
    rules.add_argument("--name", metavar="NAME", help="operator: name of the resource (default: penstock)")
    rules.add_argument("--namespace", metavar="NAME", help="operator: namespace (default: of kubectl)")
    rules.add_argument(
        "--label",
        metavar="NAME=VALUE",
        type=_label,
        action="append",
        default=[],
        help="operator: label of the resource, by which Prometheus selects rules",
    )
    kinds.add_parser(
        "grafana",
        allow_abbrev=False,
        help="a dashboard of Grafana",
        description="Prints a dashboard for Grafana 10 or newer, as JSON to import or provision.",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: a flag is given without the one that it belongs to.
    """
    if options.kind == "grafana":
        print(json.dumps(grafana.dashboard(), indent=2))
        return 0
    if options.latency is not None and options.slo is None:
        raise StartupError("--latency needs --slo: the share of requests that must be within it")
    objective = None if options.slo is None else slo.Objective(options.slo, options.latency)
    if not options.operator:
        for flag in ("name", "namespace", "label"):
            if getattr(options, flag):
                raise StartupError(f"--{flag} needs --operator: a rules file has none")
        print(yaml_text.document(prometheus.rules(objective)), end="")
        return 0
    name = options.name or "penstock"
    print(yaml_text.document(prometheus.resource(objective, name, options.namespace, dict(options.label))), end="")
    return 0


def _percent(text: str) -> Decimal:
    # The fastest burn of an alert spends that many times the budget; more than everything cannot fail.
    least = 100 - 100 / max(burn.factor for burn in slo.BURNS)
    value = Decimal(text) if _NUMBER.fullmatch(text) else Decimal(-1)
    if not least < value < 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no objective, expected a percentage above {least:.1f} and below 100"
        )
    return value.normalize() if value % 1 else value.quantize(Decimal(1))


def _latency(text: str) -> Decimal:
    number = text.removesuffix("ms") if text.endswith("ms") else text.removesuffix("s")
    if not _NUMBER.fullmatch(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no time, expected one such as 250ms or 0.25s")
    seconds = Decimal(number) / (1000 if text.endswith("ms") else 1)
    if seconds in slo.LATENCY_BUCKETS:
        return slo.LATENCY_BUCKETS[slo.LATENCY_BUCKETS.index(seconds)]
    below = [bound for bound in slo.LATENCY_BUCKETS if bound < seconds][-1:]
    above = [bound for bound in slo.LATENCY_BUCKETS if bound > seconds][:1]
    near = " and ".join(str(bound) for bound in (*below, *above))
    are = "are" if below and above else "is the least" if above else "is the largest"
    raise argparse.ArgumentTypeError(f"{seconds:f} s is no bucket of penstock_request_seconds: {near} {are}")


def _label(text: str) -> tuple[str, str]:
    match = _LABEL.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no label of Kubernetes, expected NAME=VALUE")
    return match[1], match[2]
