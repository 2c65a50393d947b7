"""A transformer's pod in front of a predictor's, with the flags, environment, probes and signals of a cluster."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest
from pods import PROBES, Pod, pod

from waiting import at_once, until

WORKERS = pytest.mark.parametrize("workers", [1, 2])


def entered(folder: Path, count: int) -> bool:
    """Returns whether that many requests are being computed."""
    return len(list(folder.glob("entered-*"))) >= count


def test_transformer_calls_its_predictor(tmp_path: Path) -> None:
    with (
        pod(tmp_path) as predictor,
        pod(tmp_path, f"--predictor_host={predictor.host}", "--predictor_protocol=v1") as transformer,
    ):
        assert transformer.probed() == dict.fromkeys(PROBES, 200)
        assert transformer.listens()
        status, body = transformer.predict([[1, 2], [3, 4]])
        assert (status, body["predictions"]) == (200, [30, 70])
        assert body["by"] != body["through"]


@WORKERS
def test_transformer_workers_call_the_predictor(workers: int, tmp_path: Path) -> None:
    with (
        pod(tmp_path, f"--workers={workers}") as predictor,
        pod(tmp_path, f"--workers={workers}", f"--predictor_host={predictor.host}") as transformer,
    ):
        responses = [transformer.predict([[number]]) for number in range(20)]
        assert [(status, body["predictions"]) for status, body in responses] == [(200, [10 * n]) for n in range(20)]


def test_unreachable_predictor_returns_503(tmp_path: Path) -> None:
    with pod(tmp_path, "--predictor_host=127.0.0.1:1") as transformer:
        assert transformer.probed() == dict.fromkeys(PROBES, 200)
        status, body = transformer.predict([[1]])
        assert status == 503
        assert "127.0.0.1" not in json.dumps(body)


@WORKERS
def test_in_flight_requests_complete_after_sigterm(workers: int, tmp_path: Path) -> None:
    with pod(tmp_path, f"--workers={workers}") as one:
        pending = at_once([lambda number=number: one.predict([[number]], hold=str(number)) for number in (1, 2)])
        until(lambda: entered(tmp_path, 2), "both requests to be computed")
        one.terminate()
        until(lambda: one.probed()["/v2/health/ready"] in {0, 503}, "the readiness probe to fail")
        (tmp_path / "go").touch()
        assert sorted(future.result()[1]["predictions"] for future in pending) == [[1], [2]]
        assert one.exit_status() == 0


@WORKERS
def test_models_load_and_unload_under_load(workers: int, tmp_path: Path) -> None:
    with pod(tmp_path, f"--workers={workers}") as one:
        done = threading.Event()
        steady, other = at_once([lambda: predict_until(one, "sums", done), lambda: predict_until(one, "coming", done)])
        try:
            for _ in range(5):
                assert one.post("/v2/repository/models/coming/load") == (200, {"name": "coming", "load": True})
                # All workers agree.
                assert {one.predict([[1]], name="coming")[0] for _ in range(8)} == {200}
                assert one.post("/v2/repository/models/coming/unload") == (200, {"name": "coming", "unload": True})
                assert {one.predict([[1]], name="coming")[0] for _ in range(8)} == {404}
        finally:
            done.set()
        assert set(steady.result()) == {200}
        # During loads the model is served or unknown.
        assert set(other.result()) <= {200, 404, 503}


def predict_until(of: Pod, name: str, done: threading.Event) -> list[int]:
    """Returns the statuses until the event."""
    seen = []
    while not done.is_set():
        seen.append(of.predict([[1, 2]], name=name)[0])
    return seen


@WORKERS
def test_metrics_include_all_workers(workers: int, tmp_path: Path) -> None:
    with pod(tmp_path, f"--workers={workers}") as one:
        for number in range(30):
            assert one.predict([[number]])[0] == 200
        with urllib.request.urlopen(f"http://{one.host}/metrics", timeout=30) as response:
            lines = response.read().decode().splitlines()
        counts = [line for line in lines if line.startswith("request_predict_seconds_count")]
        assert [float(line.split()[-1]) for line in counts] == [30]
