"""The exported rules and dashboard: every name, label and value that they use is in a scrape of a server."""

from __future__ import annotations

import json
import re
import socket
import ssl
import sys
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme
import yaml

import promql
from http_by_hand import get, infer, json_body, metric_at, post
from penstock import Cache, Context, Processes, Server, Tensor, model
from penstock._cli.main import main
from penstock._export import slo
from waiting import PATIENCE, until

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
X = {"x": np.ones(2, np.float32)}
DOCUMENTATION = Path(__file__).parents[2] / "docs"
OF_OTHERS = {
    "penstock_custom_total",
    "penstock_denied_total",
    "penstock_keys_reloads_total",
    "penstock_sequences",
    "penstock_sequences_lapsed_total",
    "penstock_stalled",
}
"""Metrics that this server, without keys and stall_timeout, and its models do not have."""


@model(name="cached", cache=Cache(1 << 20), **FLOATS)
def cached(x: Any) -> Any:
    return x


@model(name="yields", **FLOATS)
def yields(x: Any, ctx: Context) -> Iterator[Any]:
    ctx.record_tokens(prompt=3, completion=2)
    yield x
    yield x


@model(name="replaced", instances=Processes(1, max_batches=1), **FLOATS)
def replaced(x: Any) -> Any:
    return x


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a server that has done some of all that they count."""
    folder = tmp_path_factory.mktemp("tls")
    issued, certificate, key = trustme.CA().issue_cert("localhost"), folder / "cert.pem", folder / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    key.chmod(0o600)
    addresses = {"http": "plain:127.0.0.1:0", "grpc": "127.0.0.1:0"}
    tls = {"tls_certificate": str(certificate), "tls_key": str(key)}
    with Server(cached, yields, replaced, **addresses, **tls) as server:
        url = server.http_url
        for name in ("cached", "cached", "replaced", "replaced", "unknown"):
            infer(url, name, X)
        post(url, "/v2/models/yields/infer_stream", json_body(X))
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        host, port = str(server.grpc_address).rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as raw, context.wrap_socket(raw):
            until(lambda: metric_at(url, "penstock_tls_handshakes_total", outcome="ok") == 1)
        until(lambda: metric_at(url, "penstock_prompt_tokens_total", model="yields") == 3)
        until(lambda: metric_at(url, "penstock_restarts_total", model="replaced") >= 1)
        return get(url, "/metrics").body.decode()


def export(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["export", *words]) == 0
    return capsys.readouterr().out


def rules(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All rules, with those of an objective."""
    document = yaml.safe_load(export(capsys, "prometheus", "--slo", "99.9", "--latency", "1s"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def check_values(tree: Any, text: str) -> None:
    """Checks that a scrape has the values which an expression compares labels with."""
    known: dict[tuple[str, str], set[str]] = {}
    for name, labels in promql.samples(text):
        for label, value in labels.items():
            known.setdefault((name, label), set()).add(value)
    for name, matched in promql.selectors(tree):
        for label, value in matched.items():
            if "$" not in value and label != "gil":
                assert set(value.split("|")) <= known[name, label], f"{name}{{{label}}}: {value}"


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels, those of collapsed rows too."""
    return [panel for row in dashboard["panels"] for panel in (row, *row.get("panels", ()))]


def templates(text: str) -> Set[str]:
    """Labels in the annotations of an alert."""
    return set(re.findall(r"\$labels\.(\w+)", text))


def test_rules_use_what_a_server_has(scrape: str, capsys: pytest.CaptureFixture[str]) -> None:
    series = promql.scraped(scrape)
    all_rules = rules(capsys)
    assert len(all_rules) > 20
    for rule in all_rules:
        tree = promql.parse(rule["expr"])
        labels = promql.labels(tree, series)
        if "record" in rule:
            series[rule["record"]] = set(labels)
            check_values(tree, scrape)
            continue
        assert templates(json.dumps(rule["annotations"])) <= labels, rule["alert"]
        assert labels, rule["alert"]
        if not rule["alert"].endswith("BudgetBurn"):
            check_values(tree, scrape)


def test_dashboard_uses_what_a_server_has(scrape: str, capsys: pytest.CaptureFixture[str]) -> None:
    dashboard = json.loads(export(capsys, "grafana"))
    series = promql.scraped(scrape)
    targets = [target for panel in panels_of(dashboard) for target in panel.get("targets", ())]
    assert len(targets) > 40
    for target in targets:
        tree = promql.parse(target["expr"])
        labels = promql.labels(tree, series)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, target["expr"]
        check_values(tree, scrape)
    for variable in dashboard["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
        assert label in promql.labels(promql.parse(selector), series)


def test_dashboard_is_of_grafanas_types(capsys: pytest.CaptureFixture[str]) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("grafana_foundation_sdk needs Python 3.11")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    document = json.loads(export(capsys, "grafana"))

    def lost(ours: Any, theirs: Any, path: str) -> list[str]:
        """Paths of what their types do not know."""
        if isinstance(ours, dict):
            unknown = [f"{path}.{key}" for key in ours if key not in theirs]
            return unknown + [
                one for key in ours if key in theirs for one in lost(ours[key], theirs[key], f"{path}.{key}")
            ]
        if isinstance(ours, list):
            pairs = enumerate(zip(ours, theirs, strict=True))
            return [one for place, pair in pairs for one in lost(*pair, f"{path}[{place}]")]
        return [] if ours == theirs else [f"{path}: {ours!r} is {theirs!r}"]

    def unknown(document: dict[str, Any]) -> list[str]:
        read = json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder))
        return lost(document, read, "")

    assert unknown(document) == []
    # The check itself can fail.
    document["panels"][1]["gridPosition"] = {}
    assert unknown(document) == [".panels[1].gridPosition"]
    panels = panels_of(document)
    (collapsed,) = (panel for panel in panels if panel.get("collapsed"))
    assert (collapsed["title"], len(collapsed["panels"])) == ("Streams and tokens", 8)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) < 24


def test_expressions_of_unknown_series_are_found(scrape: str) -> None:
    series = promql.scraped(scrape)
    for wrong, reason in (
        ("rate(penstock_request_total[5m])", "is not scraped"),
        ("penstock_ready{name='m'}", "has no labels"),
        ("sum by (protocol) (penstock_ready)", "no labels"),
        ("penstock_ready / penstock_connections", "never match"),
    ):
        with pytest.raises(AssertionError, match=reason):
            promql.labels(promql.parse(wrong), series)
    with pytest.raises(AssertionError, match="outcome"):
        check_values(promql.parse("penstock_requests_total{outcome='okay'}"), scrape)


def test_documented_labels_are_those_of_a_scrape(scrape: str) -> None:
    series = {name: labels - promql.TARGET for name, labels in promql.scraped(scrape).items()}
    suffix = {"histogram": "_bucket", "info": "_info"}
    absent = set()
    page = (DOCUMENTATION / "metrics.md").read_text(encoding="utf-8")
    for name, kind, labels in re.findall(r"^\| `(penstock_\w+)` \| (\w+) \| (.*?) \| ", page, re.MULTILINE):
        documented = set(re.findall(r"`(\w+)`", labels))
        if (found := series.get(name + suffix.get(kind, ""))) is None:
            absent.add(name)
        else:
            assert found - {"le"} == documented, name
    assert absent == OF_OTHERS


def test_objectives_have_the_buckets_and_errors_of_the_server(scrape: str) -> None:
    bounds = [
        labels["le"]
        for name, labels in promql.samples(scrape)
        if name == "penstock_request_seconds_bucket" and (labels["model"], labels["protocol"]) == ("cached", "http")
    ]
    assert [float(bound) for bound in bounds[:-1]] == [float(bound) for bound in slo.LATENCY_BUCKETS]
    assert bounds[-1] == "+Inf"
    # A model has these counters from its load on, others from their first error.
    outcomes = {
        labels["outcome"]
        for name, labels in promql.samples(scrape)
        if name == "penstock_requests_total" and labels["model"] == "cached"
    }
    assert outcomes == {"ok", *slo.ERRORS}
    page = (DOCUMENTATION / "monitoring.md").read_text(encoding="utf-8")
    table = page.partition("| outcome |")[2].partition("\n\n")[0]
    counted = set(re.findall(r"^\| `(\w+)` \| yes", table, re.MULTILINE))
    others = set(re.findall(r"^\| `(\w+)` \| no", table, re.MULTILINE))
    assert counted == set(slo.ERRORS)
    refused = {labels["reason"] for name, labels in promql.samples(scrape) if name == "penstock_refused_total"}
    assert counted | others == {"ok", *refused}, "every kind of error is in the table"


def test_every_alert_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCUMENTATION / "monitoring.md").read_text(encoding="utf-8")
    documented: dict[str, set[str]] = {}
    for names, severities in re.findall(r"^\| ((?:`Penstock\w+`(?:, )?)+) \| ([\w, ]+) \|", page, re.MULTILINE):
        documented |= {name: set(severities.split(", ")) for name in re.findall(r"`(\w+)`", names)}
    exported: dict[str, set[str]] = {}
    for rule in rules(capsys):
        if "alert" in rule:
            exported.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    assert documented == exported
