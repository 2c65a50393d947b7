"""`penstock export prometheus` and `penstock export grafana`: forms of the output, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from penstock._cli.main import main


def export(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["export", *words]) == 0
    return yaml.safe_load(capsys.readouterr().out)


def alerts(document: Any) -> dict[tuple[str, str], str]:
    """Expressions by the name of their alert and the window of its budget."""
    rules = [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]
    return {(rule["alert"], rule["labels"].get("window", "")): rule["expr"] for rule in rules}


def test_rules_without_an_objective_have_no_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    document = export(capsys, "prometheus")
    assert [group["name"] for group in document["groups"]] == ["penstock"]
    found = alerts(document)
    assert len(found) == len(document["groups"][0]["rules"]) > 10
    assert not any(window for _, window in found)


def test_burn_rates_are_those_of_the_objective(capsys: pytest.CaptureFixture[str]) -> None:
    document = export(capsys, "prometheus", "--slo", "99.9", "--latency", "250ms")
    assert [group["name"] for group in document["groups"]] == ["penstock", "penstock-slo-error", "penstock-slo-latency"]
    found = alerts(document)
    for name, series in (("Error", "request_errors"), ("Latency", "slow_requests")):
        for long, short, threshold in (("1h", "5m", "0.0144"), ("6h", "30m", "0.006"), ("3d", "6h", "0.001")):
            expected = " and ".join(f"penstock:{series}:ratio_rate{window} > {threshold}" for window in (long, short))
            assert found[f"Penstock{name}BudgetBurn", long] == expected
    assert "le='0.25'" in json.dumps(document)
    # Without a time there is no objective of latency; thresholds are exact decimals.
    document = export(capsys, "prometheus", "--slo", "99.95")
    assert [group["name"] for group in document["groups"]] == ["penstock", "penstock-slo-error"]
    assert alerts(document)["PenstockErrorBudgetBurn", "1h"].endswith("ratio_rate5m > 0.0072")


@pytest.mark.parametrize(
    ("given", "bound"),
    [("250ms", "0.25"), ("0.25s", "0.25"), ("0.25", "0.25"), ("1s", "1.0"), ("1000ms", "1.0"), ("10", "10.0")],
)
def test_latency_is_a_bucket(given: str, bound: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = export(capsys, "prometheus", "--slo", "99", "--latency", given)
    assert f"le='{bound}'" in json.dumps(document)


def test_operator_gets_a_resource(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--slo", "99.9", "--name", "shop", "--namespace", "ml", "--label", "release=prometheus"]
    document = export(capsys, "prometheus", "--operator", *words)
    assert (document["apiVersion"], document["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert document["metadata"] == {"name": "shop", "namespace": "ml", "labels": {"release": "prometheus"}}
    assert document["spec"] == export(capsys, "prometheus", "--slo", "99.9")
    assert export(capsys, "prometheus", "--operator")["metadata"] == {"name": "penstock"}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["--slo", "99.9", "--latency", "0.3"],
            2,
            "argument --latency: 0.3 s is no bucket of penstock_request_seconds: 0.25 and 0.5 are",
        ),
        (
            ["--slo", "99.9", "--latency", "300ms"],
            2,
            "argument --latency: 0.3 s is no bucket of penstock_request_seconds: 0.25 and 0.5 are",
        ),
        (
            ["--slo", "99.9", "--latency", "2m"],
            2,
            "argument --latency: '2m' is no time, expected one such as 250ms or 0.25s",
        ),
        (
            ["--slo", "99.9", "--latency", "61"],
            2,
            "argument --latency: 61 s is no bucket of penstock_request_seconds: 60 is the largest",
        ),
        (
            ["--slo", "99.9", "--latency", "0.1ms"],
            2,
            "argument --latency: 0.0001 s is no bucket of penstock_request_seconds: 0.0005 is the least",
        ),
        (
            ["--slo", "100"],
            2,
            "argument --slo: '100' is no objective, expected a percentage above 93.1 and below 100",
        ),
        (
            ["--slo", "93"],
            2,
            "argument --slo: '93' is no objective, expected a percentage above 93.1 and below 100",
        ),
        (
            ["--slo", "many"],
            2,
            "argument --slo: 'many' is no objective, expected a percentage above 93.1 and below 100",
        ),
        (["--operator", "--label", "x"], 2, "argument --label: 'x' is no label of Kubernetes, expected NAME=VALUE"),
        (["--latency", "1s"], 1, "--latency needs --slo: the share of requests that must be within it"),
        (["--name", "x"], 1, "--name needs --operator: a rules file has none"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "prometheus", *words]) == status
    assert capsys.readouterr().err.splitlines()[-1].endswith(message)


def test_kind_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export"]) == 2
    assert capsys.readouterr().err.endswith("the following arguments are required: KIND\n")
