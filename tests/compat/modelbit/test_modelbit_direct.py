"""Worker processes that respond directly, and requests that they pass to the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from modelbit_http import HttpClient, wait_for
from modelbit_receiver import run_receiver
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit

SLOW = Files("import time\ndef slow(x):\n    time.sleep(x)\n    return x\n", "slow")
ENVIRONMENT = Files(
    "import os\ndef environment(x):\n    return [x, os.getpid(), sorted(os.environ.items())]\n", "environment"
)
# Each process creates a file, and its first call waits until two processes have.
MEETING = """import os, time
from pathlib import Path
def meeting(x):
    folder = Path(%r)
    (folder / str(os.getpid())).touch()
    until = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    return [x, os.getpid()]
"""
DIES = "import json, os\ndef dies(x):\n    os._exit(x)\n"


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[HttpClient]:
    with Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None) as server:
        yield HttpClient(server.http_url, folder)


def requests(client: HttpClient, model: str) -> int:
    """Number of requests that a model has computed."""
    lines = client.raw("/metrics").body.decode().splitlines()
    counted = [line for line in lines if line.startswith(f'penstock_requests_total{{model="{model}')]
    return sum(int(float(line.rpartition(" ")[2])) for line in counted)


def gateway_requests(client: HttpClient) -> int:
    """Number of requests that the gateway has handled."""
    return requests(client, "modelbit.")


@pytest.mark.parametrize("path", ["f/latest", "f/2", "f/main/latest", "f/main/2", "f/b~c/1", "f/b~c/latest"])
def test_m05_exact_paths_reach_the_workers_directly(tmp_path: Path, path: str) -> None:
    one, two, other = (Files(f"def f(x):\n    return ['{name}', x]\n", "f") for name in ("one", "two", "other"))
    with served(write_repository(tmp_path, {"f@1": one, "f@2": two, "b/c:f@1": other})) as client:
        kind = "other" if "~" in path else "two"
        for data, response in ((1, [kind, 1]), ([["id", 5]], [["id", [kind, 5]]])):
            assert client.call(f"/v1/{path}", data).data == response
        assert gateway_requests(client) == 0
        assert client.call("/v1/f/1", 1).data == ["one", 1]
        assert client.call("/v1/f/9", 1).error == "deployment 'f' has no version '9'; it has latest, 1, 2"
        assert gateway_requests(client) == 1


def test_m11_requests_with_options_are_sent_to_the_gateway(tmp_path: Path) -> None:
    with served(write_repository(tmp_path, {"slow": SLOW})) as client:
        assert client.call("slow", 0, timeout_seconds=5).data == 0
        assert client.call("slow", 0, response_format="links").data.startswith(client.url)
        assert client.raw("/v1/slow/latest", b'{"d\\u0061ta": 0}').data == 0
        assert gateway_requests(client) == 3
        assert client.call("slow", [0.0], headers={"X-Single": "true"}).status == 400
        assert client.call("slow", "no number").status == 400
        assert client.raw("/v1/slow/latest", b"{").status == 400
        assert gateway_requests(client) == 3


def test_m13_timeout_restarts_the_process(tmp_path: Path) -> None:
    with served(write_repository(tmp_path, {"slow": SLOW}), timeout=0.5) as client:
        text = "deployment 'slow' did not answer within 0.5 seconds, and was stopped"
        response = client.call("slow", 20)
        assert (response.status, response.error) == (408, text)
        wait_for(lambda: client.call("slow", 0).status == 200)


def test_m17_crashed_process_is_restarted(tmp_path: Path) -> None:
    with served(write_repository(tmp_path, {"dies": Files(DIES, "dies")})) as client:
        response = client.call("dies", 3)
        assert response.status == 400
        assert "'dies'" in response.error
        wait_for(lambda: client.call("dies", [1, 2]).status == 400)


def test_m16_webhook_request_returns_while_the_process_is_busy(tmp_path: Path) -> None:
    with (
        run_receiver() as receiver,
        served(write_repository(tmp_path, {"slow": SLOW}), webhooks="127.0.0.1") as client,
        ThreadPoolExecutor(1) as threads,
    ):
        versions = lambda: client.raw("/v1/slow").json["branches"]["main"]["versions"]  # noqa: E731
        assert versions()[0]["state"] == "Ready"
        busy = threads.submit(client.call, "slow", 2)
        wait_for(lambda: versions()[0]["state"] == "Executing")
        assert "batchId" in client.call("slow", 0, response_webhook=receiver.url).json
        assert not busy.done()
        assert busy.result().data == 2
        wait_for(lambda: receiver.requests)
        assert receiver.requests[0].body == {"data": 0}
        wait_for(lambda: versions()[0]["state"] == "Ready")


def test_m14_large_batches_are_split_between_workers(tmp_path: Path) -> None:
    met = tmp_path / "met"
    met.mkdir()
    meeting = Files(MEETING % str(met), "meeting")
    with served(write_repository(tmp_path / "models", {"meeting": meeting}), workers=2, split_rows=8) as client:
        rows = client.call("meeting", [[place, place] for place in range(40)]).data
        assert [id_ for id_, _ in rows] == [*range(40)]
        assert len({pid for _, (_, pid) in rows}) == 2
        assert gateway_requests(client) == 1
        assert len(client.call("meeting", [[1, 2]]).data) == 1
        assert gateway_requests(client) == 1


def test_m23_keys_are_checked_and_hidden_from_functions(tmp_path: Path) -> None:
    key = "mb-secret-of-the-server"
    with served(write_repository(tmp_path, {"environment": ENVIRONMENT}), keys=f"other,{key}") as client:
        for headers, status in (({}, 401), ({"Authorization": "mb-wrong"}, 401), ({"Authorization": "Bearer ü"}, 401)):
            encoded = {name: value.encode() for name, value in headers.items()}
            assert client.raw("/v1/environment/latest", b'{"data": 1}', encoded).status == status
        for value in (key, f"Bearer {key}"):
            data = client.call("environment", 1, headers={"Authorization": value}).data
            assert data[0] == 1
            assert not re.search(key, str(data[2]))
        assert gateway_requests(client) == 0


def test_m24_logged_requests_are_sent_to_the_gateway(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with served(write_repository(tmp_path / "folder", {"slow": SLOW}), log=str(log)) as client:
        assert client.call("slow", 0).data == 0
        assert gateway_requests(client) == 1
        wait_for(lambda: log.exists() and log.read_text())


def test_v2_requests_cannot_bypass_the_gateway(tmp_path: Path) -> None:
    with served(write_repository(tmp_path, {"slow": SLOW})) as client:
        body = b'{"inputs": [{"name": "body", "shape": [1], "datatype": "BYTES", "data": ["{\\"data\\": 0}"]}]}'
        rejected = client.raw("/v2/models/slow/infer", body)
        assert (rejected.status, rejected.error) == (
            403,
            "send requests for a deployment to its own path, /v1/DEPLOYMENT/VERSION",
        )
