"""Timeouts, crashes, links, webhooks, the request log, and batches split between workers."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from modelbit_http import HttpClient, wait_for
from modelbit_receiver import Posted, run_receiver
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit
from penstock.compat.modelbit._gateway import webhooks

SLEEPS = Files(
    "import os, time\n"
    "def sleeps(seconds):\n"
    "    if seconds == 'die':\n        os._exit(3)\n"
    "    time.sleep(seconds)\n"
    "    print('slept', seconds)\n"
    "    return os.getpid()\n",
    "sleeps",
)
DEPLOYMENTS = {"sleeps": SLEEPS, "other": Files("def other(x):\n    return x\n", "other")}
OPTIONS = {"log": "{folder}/log.jsonl", "webhooks": "127.0.0.1,localhost", "link_seconds": "2"}


def entries(served: HttpClient) -> list[Any]:
    path = served.folder / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_m13_timeout_of_a_request(served: HttpClient) -> None:
    for turn in range(3):
        pid = served.call("sleeps", 0).data
        with ThreadPoolExecutor(1) as threads:
            start = time.monotonic()
            late = threads.submit(served.call, "sleeps", 3, timeout_seconds=1)
            time.sleep(0.2)
            assert served.call("other", 5).data == 5, "other deployments are not delayed"
            response = late.result()
        # A busy machine may delay the response.
        if (elapsed := time.monotonic() - start) < 2:
            break
        assert turn < 2, f"it took {elapsed} seconds"
    assert response.status == 408
    message = "deployment 'sleeps' did not answer within 1 seconds"
    next_pid = served.call("sleeps", 0).data
    if served.isolation == "process":
        assert response.error == f"{message}, and was stopped"
        assert next_pid != pid, "by a restarted process"
    else:
        assert response.error == message
        assert next_pid == pid == os.getpid()


@pytest.mark.usefixtures("processes_only")
def test_m13_crashed_process_is_reported_and_restarted(served: HttpClient) -> None:
    response = served.call("sleeps", "die")
    assert response.status == 400, "a status that clients do not retry"
    assert "its process exited with code 3" in response.error
    assert wait_for(lambda: served.call("sleeps", 0).status == 200)


def test_m20_links_are_signed_and_expire(served: HttpClient) -> None:
    url = served.call("other", {"a": 1}, response_format="links").data
    assert url.startswith(f"{served.url}/v1/links/")
    path = url.removeprefix(served.url)
    assert served.raw(path).json == {"data": {"a": 1}}
    tampered = served.raw(f"{path[:-1]}{'0' if path[-1] != '0' else '1'}")
    assert (tampered.status, tampered.error) == (404, "there is no such link")
    for bad in ("x", "../../etc/passwd.99999999999.00", "a.9.é"):
        assert (
            served.raw(f"/v1/links/{path.split('/')[3]}/{bad.replace('/', '%2F').replace('é', '%C3%A9')}").status == 404
        )
    wait_for(lambda: served.raw(path).status == 410)
    failed = served.call("sleeps", "x", response_format="links")
    assert failed.error.startswith("TypeError")


def test_m19_result_is_posted_to_the_webhook(served: HttpClient) -> None:
    with run_receiver() as receiver:
        start = time.monotonic()
        response = served.call("sleeps", 0.3, response_webhook=f"{receiver.url}/hook?a=1", timeout_seconds=600)
        assert time.monotonic() - start < 0.3
        batch_id = response.json["batchId"]
        wait_for(lambda: receiver.requests)
        (request,) = receiver.requests
    assert request.path == "/hook?a=1"
    assert request.headers["x-mb-batch-id"] == batch_id
    assert isinstance(request.body.get("data"), int), request.body
    wait_for(lambda: [one for one in entries(served) if one.get("batchId") == batch_id])


def test_m19_failed_webhooks_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PAUSE", 0.01)
    with run_receiver(lambda number, _: (500 if number < 3 else 204, {})) as receiver:
        assert webhooks.post_with_retries(receiver.url, b"{}", "b", ignores_timeout=False)
        assert len(receiver.requests) == 3
    assert not webhooks.post_with_retries(receiver.url, b"{}", "b", ignores_timeout=False), "the receiver has stopped"


def test_m19_slow_webhooks_are_retried_unless_timeouts_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PAUSE", 0.01)
    monkeypatch.setattr(webhooks, "SECONDS", 0.1)

    def slow(number: int, _: Posted) -> tuple[int, Any]:
        time.sleep(0.3 if number == 1 else 0)
        return 200, {}

    for ignores, times in ((True, 1), (False, 2)):
        with run_receiver(slow) as receiver:
            assert webhooks.post_with_retries(receiver.url, b"{}", "b", ignores_timeout=ignores)
            assert len(receiver.requests) == times


@pytest.mark.parametrize("url", ["https://other.example", "ftp://127.0.0.1", "http://u" + "@127.0.0.1", "http://[", 3])
def test_m19_webhooks_to_unlisted_hosts_are_rejected(served: HttpClient, url: Any) -> None:
    response = served.call("other", 1, response_webhook=url)
    assert response.status == 400
    assert response.error.startswith("response_webhook")


def test_m24_request_log_has_inputs_outputs_and_durations(served: HttpClient) -> None:
    before = len(entries(served))
    served.call("/v1/sleeps/main/latest", [["a", 0], ["b", 0.01]])
    wait_for(lambda: len(entries(served)) > before)
    entry = entries(served)[-1]
    assert "error" not in entry, entry["error"]
    assert entry["deploymentName"] == "sleeps"
    assert (entry["deploymentVersion"], entry["alias"], entry["branch"]) == (1, "latest", "main")
    assert entry["batchStartTs"] < entry["batchEndTs"]
    assert entry["batchDurationMs"] >= entry["deploymentRuntimesMs"][0] >= 10
    assert entry["totalDeploymentRuntimeMs"] == sum(entry["deploymentRuntimesMs"])
    assert entry["resultCount"] == 2
    assert [(one["id"], one["inputs"], one["stdout"]) for one in entry["results"]] == [
        ("a", [0], "slept 0\n"),
        ("b", [0.01], "slept 0.01\n"),
    ]
    assert entry["results"][0]["output"] == entry["results"][1]["output"]
    assert entry["source"] == "rest"
    served.call("sleeps", "x")
    wait_for(lambda: entries(served)[-1].get("error", "").startswith("TypeError"))


def test_m23_workers_share_a_batch(tmp_path: Path) -> None:
    source = "import os, time\ndef work(x):\n    time.sleep(0.01)\n    return [x, os.getpid()]\n"
    folder = write_repository(tmp_path, {"work": Files(source, "work")})
    options = {"workers": 4, "split_rows": 10, "log": str(tmp_path / "log.jsonl")}
    with Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, folder)
        start = time.monotonic()
        response = client.call("work", [[place, place] for place in range(101)]).data
        assert time.monotonic() - start < 0.8, "sequential calls take more than a second"
        assert [(row[0], row[1][0]) for row in response] == [(place, place) for place in range(101)]
        assert len({row[1][1] for row in response}) == 4
        assert len({row[1][1] for row in client.call("work", [[place, place] for place in range(8)]).data}) == 1
        (entry, _) = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
        assert len(entry["deploymentRuntimesMs"]) == 4
        assert [one["id"] for one in entry["results"]] == [*range(101)]
        failed = client.call("work", [*[[place, place] for place in range(60)], ["bad"]])
        assert failed.error.startswith('row id "bad": got 0')
        nested = client.call("work", [[1, [[[[]]]] * 30]]).data
        assert nested[0][0] == 1, "fewer rows than workers"


def test_m27_images_are_stored_and_tracebacks_returned(tmp_path: Path) -> None:
    source = (
        "import modelbit, pathlib\ndef draw(x):\n"
        "    if x == 'fail':\n        raise ValueError('no picture')\n"
        "    pathlib.Path('drawn.png').write_bytes(b'png')\n    modelbit.log_image('drawn.png')\n"
    )
    folder = write_repository(tmp_path / "made", {"draw": Files(source, "draw")})
    options = {"images": str(tmp_path / "images"), "log": str(tmp_path / "log.jsonl"), "tracebacks": "on"}
    with Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, folder)
        assert client.call("draw", 1).data is None
        wait_for(lambda: (tmp_path / "log.jsonl").exists() and (tmp_path / "log.jsonl").read_text().endswith("\n"))
        (name,) = json.loads((tmp_path / "log.jsonl").read_text())["results"][0]["images"]
        assert (tmp_path / "images" / name).read_bytes() == b"png"
        lines = client.call("draw", "fail").error.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1] == "ValueError: no picture"
        assert "source.py" in lines[1]
        assert os.sep not in lines[1].split("source.py")[1]
