"""Prometheus itself: its checker of rules, series that must and must not fire, scrapes of both formats, exemplars."""

from __future__ import annotations

import datetime
import http.server
import json
import shutil
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme
import yaml
from observe import free_ports

from collector import collecting
from http_by_hand import HttpResponse, get, infer, json_body, post
from penstock import Server, Tensor, model
from penstock._cli.main import main
from waiting import PATIENCE, until

MISSING = "is not installed: the Debian packages prometheus and prometheus-alertmanager have it"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=f"promtool {MISSING}")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason=f"prometheus {MISSING}")
needs_alertmanager = pytest.mark.skipif(
    shutil.which("prometheus-alertmanager") is None, reason=f"prometheus-alertmanager {MISSING}"
)

X = {"x": np.ones(2, np.float32)}
TRACE = "0af7651916cd43dd8448eb211c80319c"


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


def export(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Path:
    """The file of exported rules."""
    assert main(["export", "prometheus", *words]) == 0
    file = folder / "rules.yml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    return file


def promtool(*words: str) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("words", [(), ("--slo", "99.9"), ("--slo", "95", "--latency", "10")])
def test_rules_pass_the_checker(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promtool("check", "rules", str(export(tmp_path, capsys, *words)))


Values = Mapping[str, str]
"""Values of series, in the notation of promtool, one a minute."""

OF_MODEL = "model='m',version='1'"
ERRORS = "penstock_requests_total{model='m',version='1',protocol='http',outcome='%s'}"
DAYS = 1500 * 3
"""Minutes of the longest tests, a little more than three days."""
EACH = 30
"""Minutes between evaluations in those."""
LAST = DAYS - EACH


def requests(ok: int, **others: int) -> Values:
    """Requests a minute, by outcome."""
    return {ERRORS % outcome: f"0+{count}x{DAYS}" for outcome, count in {"ok": ok, **others}.items()}


def latencies(fast: int, all_: int) -> Values:
    series = f"penstock_request_seconds_%s{{%s{OF_MODEL},protocol='http'}}"
    return {series % ("bucket", "le='0.25',"): f"0+{fast}x{DAYS}", series % ("count", ""): f"0+{all_}x{DAYS}"}


def certificate(days: float) -> Values:
    # The time of these tests begins at 0.
    return {"penstock_tls_certificate_expiry_timestamp_seconds{name='a.pem'}": f"{days * 86400:.0f}x20"}


def gil(held: str, labels: str = OF_MODEL) -> Values:
    return {f"penstock_gil_held_seconds_total{{{labels}}}": held}


READY, DEPTH = f"penstock_ready{{{OF_MODEL}}}", f"penstock_queue_depth{{{OF_MODEL}}}"
RESTARTS = f"penstock_restarts_total{{{OF_MODEL},reason='%s'}}"
RELOADS, REFUSED = "penstock_tls_reloads_total{outcome='%s'}", "penstock_refused_total{reason='%s'}"
IN_FLIGHT, BATCHES = f"penstock_in_flight{{{OF_MODEL}}}", f"penstock_compute_seconds_count{{{OF_MODEL}}}"
GAPS, PROCESSES = f"penstock_response_gap_seconds_count{{{OF_MODEL}}}", f"penstock_processes{{{OF_MODEL}}}"
BODIES = ("penstock_body_bytes", "penstock_body_limit_bytes")
ERROR, LATENCY = "PenstockErrorBudgetBurn", "PenstockLatencyBudgetBurn"

FIRES: list[tuple[str, str, Values, int]] = [
    # Alert, window of a budget, series, minute.
    ("PenstockModelNotReady", "", {READY: "1 0x20"}, 12),
    ("PenstockProcessesRestart", "", {RESTARTS % "crash": "0 1 2 3 4 5x10"}, 6),
    ("PenstockProcessesRestart", "", {RESTARTS % "crash": "0 1 2 3x10", RESTARTS % "hang": "0 1 2x10"}, 6),
    ("PenstockQueueRises", "", {DEPTH: "1+1x30"}, 20),
    ("PenstockModelStalled", "", {IN_FLIGHT: "3x30", BATCHES: "7x30"}, 20),
    ("PenstockInterpreterBusy", "", gil("0+58x30"), 20),
    ("PenstockInterpreterBusy", "", {**gil("0+30x30"), **gil("0+28x30", "model='n',version='1'")}, 20),
    ("PenstockCertificateExpires", "", certificate(13), 5),
    ("PenstockCertificateReloadFails", "", {RELOADS % "error": "0 0 1x20"}, 10),
    ("PenstockSpansDropped", "", {"penstock_spans_dropped_total": "0 0 9x20"}, 5),
    ("PenstockLogLinesDropped", "", {"penstock_log_dropped_total": "0 0 9x20"}, 5),
    ("PenstockRequestsDenied", "", {REFUSED % "forbidden": "0+90x30"}, 15),
    ("PenstockRequestsDenied", "", {REFUSED % "forbidden": "0+40x30", REFUSED % "unauthenticated": "0+50x30"}, 15),
    ("PenstockRequestMemoryLow", "", {BODIES[0]: "900x20", BODIES[1]: "1000x20"}, 7),
    (ERROR, "1h", requests(980, handler=20), 70),
    (ERROR, "1h", requests(980, timeout=10, overloaded=10), 70),
    (ERROR, "6h", requests(992, internal=8), 400),
    (ERROR, "3d", requests(998, unavailable=2), LAST),
    (LATENCY, "1h", latencies(980, 1000), 70),
    (LATENCY, "6h", latencies(992, 1000), 400),
    (LATENCY, "3d", latencies(998, 1000), LAST),
]

QUIET: list[tuple[str, str, Values, int]] = [
    ("PenstockModelNotReady", "", {READY: "1x20"}, 15),
    ("PenstockModelNotReady", "", {READY: "0x9 1 0x9"}, 18),
    ("PenstockProcessesRestart", "", {RESTARTS % "crash": "0 1 2 3x10"}, 8),
    ("PenstockQueueRises", "", {DEPTH: "40x30"}, 25),
    ("PenstockQueueRises", "", {DEPTH: "1 2 3 0 4 5 6 0 7 8 9 0 10 11 12 0 13 14 15 0"}, 19),
    ("PenstockModelStalled", "", {IN_FLIGHT: "3x30", BATCHES: "7+1x30"}, 20),
    ("PenstockModelStalled", "", {IN_FLIGHT: "0x30", BATCHES: "7x30"}, 20),
    ("PenstockModelStalled", "", {IN_FLIGHT: "1x30", BATCHES: "7x30", GAPS: "0+50x30"}, 20),
    ("PenstockInterpreterBusy", "", gil("0+50x30"), 20),
    ("PenstockInterpreterBusy", "", {**gil("0+200x30"), PROCESSES: "4x30"}, 20),
    ("PenstockInterpreterBusy", "", {**gil("0+200x30"), "penstock_build_info{gil='off'}": "1x30"}, 20),
    ("PenstockCertificateExpires", "", certificate(15), 5),
    ("PenstockCertificateReloadFails", "", {RELOADS % "error": "0x20", RELOADS % "ok": "0+1x20"}, 10),
    ("PenstockSpansDropped", "", {"penstock_spans_dropped_total": "9x30"}, 20),
    ("PenstockLogLinesDropped", "", {"penstock_log_dropped_total": "9x30"}, 20),
    ("PenstockRequestsDenied", "", {REFUSED % "forbidden": "0+30x30", REFUSED % "not_found": "0+900x30"}, 15),
    ("PenstockRequestMemoryLow", "", {BODIES[0]: "700x20", BODIES[1]: "1000x20"}, 15),
    (ERROR, "1h", requests(990, handler=10), 70),
    (ERROR, "1h", requests(500, invalid_input=400, cancelled=100), 70),
    (ERROR, "1h", {(ERRORS % "handler").replace("http", "inprocess"): "0+100x100", **requests(500)}, 70),
    # It failed, and recovered 20 minutes ago: the short window ends the alert.
    (ERROR, "1h", {ERRORS % "ok": f"0+1000x{DAYS}", ERRORS % "handler": "0+90x60 5400x60"}, 80),
    (ERROR, "6h", requests(996, internal=4), 400),
    (ERROR, "3d", requests(9995, unavailable=5), LAST),
    (LATENCY, "1h", latencies(990, 1000), 70),
    (LATENCY, "6h", latencies(996, 1000), 400),
    (LATENCY, "3d", latencies(9995, 10000), LAST),
    # Without requests there is nothing to judge.
    (ERROR, "1h", requests(0, handler=0), 70),
    (LATENCY, "1h", latencies(0, 0), 70),
]


def unit_test(case: tuple[str, str, Values, int], fires: bool) -> dict[str, Any]:
    """A test of promtool."""
    alert, window, values, minute = case
    target = "job='p',instance='i'"
    series = {
        name.replace("{", f"{{{target},", 1) if "{" in name else f"{name}{{{target}}}": value
        for name, value in values.items()
    }
    of_window = f",window='{window}'" if window else ""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": value} for name, value in series.items()],
        "promql_expr_test": [
            {
                "expr": f"count(ALERTS{{alertname='{alert}',alertstate='firing'{of_window}}})",
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        ],
    }


@needs_promtool
def test_alerts_fire_when_they_must_and_only_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = export(tmp_path, capsys, "--slo", "99.9", "--latency", "250ms")
    groups = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"]
    names = {
        (rule["alert"], rule["labels"].get("window", ""))
        for group in groups
        for rule in group["rules"]
        if "alert" in rule
    }
    for cases in (FIRES, QUIET):
        assert {case[:2] for case in cases} == names
    for lasts_days in (False, True):
        cases = [(case, fires) for fires, group in ((True, FIRES), (False, QUIET)) for case in group]
        tests = [unit_test(case, fires) for case, fires in cases if (case[3] > 1000) is lasts_days]
        interval = f"{EACH if lasts_days else 1}m"
        document = {"rule_files": [rules.name], "evaluation_interval": interval, "tests": tests}
        (tmp_path / "tests.yml").write_text(json.dumps(document), encoding="utf-8")
        promtool("test", "rules", str(tmp_path / "tests.yml"))
    # The tests themselves can fail.
    document["tests"] = [unit_test(QUIET[0], fires=True)]
    (tmp_path / "tests.yml").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(AssertionError, match="PenstockModelNotReady"):
        promtool("test", "rules", str(tmp_path / "tests.yml"))


@needs_promtool
@pytest.mark.parametrize("accept", ["text/plain", None])
def test_text_format_passes_the_linter(accept: str | None) -> None:
    with Server(same, http="127.0.0.1:0", grpc=None) as server:
        infer(server.http_url, "same", X)
        text = get(server.http_url, "/metrics").body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert b"error while linting" not in done.stderr, done.stderr
    problems = [line for line in done.stderr.decode().splitlines() if line]
    assert problems == []


@contextmanager
def running(program: str, *arguments: str) -> Iterator[None]:
    """A program that is killed at the end."""
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def relay_without_accept(url: str) -> Iterator[str]:
    """An address that asks a server for its metrics without a header `Accept`: this Prometheus always sends one."""

    class Relay(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            response = get(url, self.path)
            self.send_response(response.status)
            self.send_header("content-type", response.headers["content-type"])
            self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{relay.server_port}"
        relay.shutdown()


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of a response; None while it does not answer."""
        query = urllib.parse.urlencode(parameters)
        try:
            response: HttpResponse = get(self.url, f"/api/v1/{path}?{query}")
        except OSError:
            return None
        return response.json()["data"] if response.status == 200 else None

    def exemplars(self, query: str) -> Any:
        """The exemplars of all time."""
        return self.ask("query_exemplars", query=query, start="0", end="9999999999")

    def value(self, query: str) -> float | None:
        """The value of a query with one result."""
        result = (self.ask("query", query=query) or {"result": []})["result"]
        return float(result[0]["value"][1]) if result else None


@contextmanager
def prometheus(folder: Path, **config: Any) -> Iterator[Prometheus]:
    """Prometheus, which scrapes and evaluates each second."""
    file, address = folder / "prometheus.yml", f"127.0.0.1:{free_ports(1)[0]}"
    timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    file.write_text(json.dumps({"global": timing, **config}), encoding="utf-8")
    flags = {"config.file": file, "storage.tsdb.path": folder / "data", "web.listen-address": address}
    words = [*(f"--{name}={value}" for name, value in flags.items()), "--enable-feature=exemplar-storage"]
    with running("prometheus", *words):
        started = Prometheus(f"http://{address}")
        until(lambda: started.ask("targets") is not None, "Prometheus to start")
        yield started


def job(name: str, address: str) -> dict[str, Any]:
    return {"job_name": name, "static_configs": [{"targets": [address]}]}


@needs_prometheus
def test_prometheus_scrapes_both_formats_and_finds_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = export(tmp_path, capsys, "--slo", "99.9", "--latency", "250ms")
    with collecting() as collector, Server(same, http="127.0.0.1:0", grpc=None, otlp_endpoint=collector.url) as server:
        url = server.http_url
        for flags in ("01", "00"):
            headers = {"traceparent": f"00-{TRACE if flags == '01' else 'f' * 32}-b7ad6b7169203331-{flags}"}
            assert post(url, "/v2/models/same/infer", json_body(X), headers).status == 200
        with (
            relay_without_accept(url) as relay,
            prometheus(
                tmp_path,
                rule_files=[str(rules)],
                scrape_configs=[job("openmetrics", url.removeprefix("http://")), job("text", relay)],
            ) as found,
        ):
            for name in ("openmetrics", "text"):
                count = f"penstock_request_seconds_count{{job='{name}',protocol='http'}}"
                until(lambda query=count: found.value(query) == 2, f"a scrape of {name}")
                bucket = count.replace("_count{", "_bucket{le='60.0',")
                total = count.replace("_seconds_count{", "s_total{outcome='ok',")
                assert found.value(bucket) == found.value(total) == 2
                assert found.value(f"penstock_build_info{{job='{name}'}}") == 1
            targets = found.ask("targets")["activeTargets"]
            assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")] * 2
            for metric in ("penstock_request_seconds_bucket", "penstock_compute_seconds_bucket"):
                until(lambda query=metric: found.exemplars(query), f"exemplars of {metric}")
                exemplars = found.exemplars(metric)
                assert {series["seriesLabels"]["job"] for series in exemplars} == {"openmetrics"}
                traces = {one["labels"]["trace_id"] for series in exemplars for one in series["exemplars"]}
                assert traces == {TRACE}, "only sampled requests have exemplars"

            def evaluated() -> list[dict[str, Any]]:
                groups = found.ask("rules")["groups"]
                return [rule for group in groups for rule in group["rules"]]

            until(lambda: all(rule["health"] != "unknown" for rule in evaluated()), "all rules to be evaluated")
            assert {(rule["health"], rule.get("lastError")) for rule in evaluated()} == {("ok", None)}
            assert not any(rule.get("alerts") for rule in evaluated()), "nothing is wrong with this server"


@needs_prometheus
@needs_alertmanager
def test_alertmanager_receives_an_alert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    issued = trustme.CA().issue_cert("localhost", not_after=tomorrow)
    certificate_file, key = tmp_path / "short.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate_file))
    issued.private_key_pem.write_to_path(str(key))
    key.chmod(0o600)
    tls = {"tls_certificate": str(certificate_file), "tls_key": str(key)}
    rules, manager = export(tmp_path, capsys), f"127.0.0.1:{free_ports(1)[0]}"
    (tmp_path / "manager.yml").write_text(json.dumps({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}))
    flags = {
        "config.file": tmp_path / "manager.yml",
        "storage.path": tmp_path / "manager",
        "web.listen-address": manager,
    }
    words = [*(f"--{name}={value}" for name, value in flags.items()), "--cluster.listen-address="]

    def received() -> list[dict[str, Any]]:
        try:
            response = get(f"http://{manager}", "/api/v2/alerts")
        except OSError:
            return []
        return response.json() if response.status == 200 else []

    with (
        Server(same, http="plain:127.0.0.1:0", grpc="127.0.0.1:0", **tls) as server,
        running("prometheus-alertmanager", *words),
        prometheus(
            tmp_path,
            rule_files=[str(rules)],
            scrape_configs=[job("shop", server.http_url.removeprefix("http://"))],
            alerting={"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        ),
    ):
        until(received, "the alert to arrive", PATIENCE)
        (alert,) = received()
    assert alert["labels"]["alertname"] == "PenstockCertificateExpires"
    assert alert["labels"]["severity"] == "ticket"
    instance = alert["labels"]["instance"]
    assert alert["annotations"]["summary"] == f"The certificate short.pem of {instance} expires within 14 days"
