"""Processes that answer usual requests themselves, and what they leave to the integration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from modelbit_asking import Asker, until
from modelbit_receiving import receiving
from modelbit_repository import Written, write

from penstock import Server
from penstock.compat import modelbit

SLOW = Written("import time\ndef slow(x):\n    time.sleep(x)\n    return x\n", "slow")
WHERE = Written("import os\ndef where(x):\n    return [x, os.getpid(), sorted(os.environ.items())]\n", "where")
TELLS = "import json, os\ndef dies(x):\n    os._exit(x)\n"


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Asker]:
    with Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None) as server:
        yield Asker(server.http_url, folder)


def requests(asker: Asker, model: str) -> int:
    """How many requests a model has answered."""
    lines = asker.raw("/metrics").body.decode().splitlines()
    counted = [line for line in lines if line.startswith(f'penstock_requests_total{{model="{model}')]
    return sum(int(float(line.rpartition(" ")[2])) for line in counted)


def integration(asker: Asker) -> int:
    """How many the integration has answered."""
    return requests(asker, "modelbit.")


@pytest.mark.parametrize("path", ["f/latest", "f/2", "f/main/latest", "f/main/2", "f/b~c/1", "f/b~c/latest"])
def test_m05_whole_paths_are_the_deployments_own(tmp_path: Path, path: str) -> None:
    one, two, other = (Written(f"def f(x):\n    return ['{name}', x]\n", "f") for name in ("one", "two", "other"))
    with served(write(tmp_path, {"f@1": one, "f@2": two, "b/c:f@1": other})) as asker:
        kind = "other" if "~" in path else "two"
        for data, answer in ((1, [kind, 1]), ([["id", 5]], [["id", [kind, 5]]])):
            assert asker.ask(f"/v1/{path}", data).data == answer
        assert integration(asker) == 0
        assert asker.ask("/v1/f/1", 1).data == ["one", 1]
        assert asker.ask("/v1/f/9", 1).error == "deployment 'f' has no version '9'; it has latest, 1, 2"
        assert integration(asker) == 1


def test_m11_what_a_request_wishes_is_the_integrations(tmp_path: Path) -> None:
    with served(write(tmp_path, {"slow": SLOW})) as asker:
        assert asker.ask("slow", 0, timeout_seconds=5).data == 0
        assert asker.ask("slow", 0, response_format="links").data.startswith(asker.url)
        assert asker.raw("/v1/slow/latest", b'{"d\\u0061ta": 0}').data == 0
        assert integration(asker) == 3
        assert asker.ask("slow", [0.0], headers={"X-Single": "true"}).status == 400
        assert asker.ask("slow", "no number").status == 400
        assert asker.raw("/v1/slow/latest", b"{").status == 400
        assert integration(asker) == 3


def test_m13_a_process_is_stopped_that_takes_too_long(tmp_path: Path) -> None:
    with served(write(tmp_path, {"slow": SLOW}), timeout=0.5) as asker:
        text = "deployment 'slow' did not answer within 0.5 seconds, and was stopped"
        answer = asker.ask("slow", 20)
        assert (answer.status, answer.error) == (408, text)
        until(lambda: asker.ask("slow", 0).status == 200)


def test_m17_a_process_that_ends_is_replaced(tmp_path: Path) -> None:
    with served(write(tmp_path, {"dies": Written(TELLS, "dies")})) as asker:
        answer = asker.ask("dies", 3)
        assert answer.status == 400
        assert "'dies'" in answer.error
        until(lambda: asker.ask("dies", [1, 2]).status == 400)


def test_m16_a_webhook_waits_for_no_process_and_states_are_told_meanwhile(tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        served(write(tmp_path, {"slow": SLOW}), webhooks="127.0.0.1") as asker,
        ThreadPoolExecutor(1) as threads,
    ):
        versions = lambda: asker.raw("/v1/slow").json["branches"]["main"]["versions"]  # noqa: E731
        assert versions()[0]["state"] == "Ready"
        busy = threads.submit(asker.ask, "slow", 2)
        until(lambda: versions()[0]["state"] == "Executing")
        assert "batchId" in asker.ask("slow", 0, response_webhook=receiver.url).json
        assert not busy.done()
        assert busy.result().data == 2
        until(lambda: receiver.got)
        assert receiver.got[0].body == {"data": 0}
        until(lambda: versions()[0]["state"] == "Ready")


def test_m14_large_batches_are_shared_out(tmp_path: Path) -> None:
    with served(write(tmp_path, {"where": WHERE}), workers=2, split_rows=8) as asker:
        rows = asker.ask("where", [[place, place] for place in range(40)]).data
        assert [id_ for id_, _ in rows] == [*range(40)]
        assert len({pid for _, (_, pid, _) in rows}) == 2
        assert integration(asker) == 1
        assert len(asker.ask("where", [[1, 2]]).data) == 1
        assert integration(asker) == 1


def test_m23_keys_are_looked_at_and_not_told(tmp_path: Path) -> None:
    key = "mb-secret-of-the-server"
    with served(write(tmp_path, {"where": WHERE}), keys=f"other,{key}") as asker:
        for headers, status in (({}, 401), ({"Authorization": "mb-wrong"}, 401), ({"Authorization": "Bearer ü"}, 401)):
            encoded = {name: value.encode() for name, value in headers.items()}
            assert asker.raw("/v1/where/latest", b'{"data": 1}', encoded).status == status
        for value in (key, f"Bearer {key}"):
            data = asker.ask("where", 1, headers={"Authorization": value}).data
            assert data[0] == 1
            assert not re.search(key, str(data[2]))
        assert integration(asker) == 0


def test_m24_what_is_logged_is_the_integrations(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with served(write(tmp_path / "folder", {"slow": SLOW}), log=str(log)) as asker:
        assert asker.ask("slow", 0).data == 0
        assert integration(asker) == 1
        until(lambda: log.exists() and log.read_text())


def test_nobody_goes_around_the_integration(tmp_path: Path) -> None:
    with served(write(tmp_path, {"slow": SLOW})) as asker:
        body = b'{"inputs": [{"name": "body", "shape": [1], "datatype": "BYTES", "data": ["{\\"data\\": 0}"]}]}'
        refused = asker.raw("/v2/models/slow/infer", body)
        assert (refused.status, refused.error) == (
            403,
            "send requests for a deployment to its own path, /v1/DEPLOYMENT/VERSION",
        )
