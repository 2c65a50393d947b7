"""Three integrations and a native model in one server: isolated from each other, counted and drained together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import function_apps
import pytest
from function_apps import INTEGRATIONS, REQUESTS, identity_of, send_command

from http_by_hand import get, post
from serving_process import Serving
from waiting import at_once, until

pytest.importorskip("yaml")

ALL = tuple(REQUESTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return function_apps.write_apps(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    with function_apps.serving(folder) as serving:
        yield serving


def test_g01_one_command_serves_all_apps(server: Serving) -> None:
    assert [identity_of(send_command(server.http, app))[0] for app in ALL] == list(ALL)


def test_g01_apps_have_isolated_modules_environment_and_folder(server: Serving) -> None:
    identities = {app: identity_of(send_command(server.http, app)) for app in ALL}
    assert {app: one[:2] for app, one in identities.items()} == {app: [app, app] for app in ALL}
    assert {app: identities[app][2] for app in INTEGRATIONS} == {
        "inferless": "shop",
        "modelbit": "identify",
        "openinference": "hub",
    }
    assert identities["native"][3] == server.process.pid
    assert len({one[3] for one in identities.values()}) == len(ALL)


@pytest.mark.parametrize("app", INTEGRATIONS)
def test_g01_crash_of_an_app_does_not_affect_others(server: Serving, app: str) -> None:
    before = {each: identity_of(send_command(server.http, each)) for each in ALL}
    assert send_command(server.http, app, "exit").status in (400, 500)
    for each in set(ALL) - {app}:
        assert identity_of(send_command(server.http, each)) == before[each]
    # Requests are rejected while the process restarts.
    response = until(lambda: (one := send_command(server.http, app)).status == 200 and one, "the process to restart")
    assert identity_of(response)[:3] == before[app][:3]
    assert identity_of(response)[3] != before[app][3]


def test_g01_modules_are_isolated_within_the_servers_process(folder: Path) -> None:
    targets = ("shop", "repository", "hub/function.json")
    with function_apps.serving(folder, "--option", "isolation=server", targets=targets) as serving:
        identities = {app: identity_of(send_command(serving.http, app)) for app in INTEGRATIONS}
    assert {app: one[0] for app, one in identities.items()} == {app: app for app in INTEGRATIONS}
    assert {one[3] for one in identities.values()} == {serving.process.pid}


OTHER = b'{"inputs": [{"name": "other", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}'
NUMBER = b'{"inputs": [{"name": "command", "shape": [1], "datatype": "FP32", "data": [1]}]}'
TWO = b'{"inputs": [{"name": "command", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]}'
BAD: list[tuple[str, str, Any, int]] = [
    ("POST", "/v2/models/shop/infer", b"{", 400),
    ("POST", "/v2/models/shop/infer", b"[]", 400),
    ("POST", "/v2/models/shop/infer", OTHER, 400),
    ("POST", "/v2/models/shop/infer", NUMBER, 400),
    ("POST", "/v2/models/shop/versions/7/infer", b'{"inputs": []}', 404),
    ("POST", "/v1/identify/latest", b"{", 400),
    ("POST", "/v1/identify/latest", b"[]", 400),
    ("POST", "/v1/identify/latest", b'{"data": [1, 2, 3]}', 400),
    ("POST", "/v1/identify/latest", b'{"data": {"data": 1}}', 400),
    ("POST", "/v1/identify/7", b'{"data": "a"}', 404),
    ("POST", "/v1/nothing/latest", b'{"data": "a"}', 404),
    ("POST", "/v1/endpoint/nothing", b'{"data": "a"}', 404),
    ("POST", "/v2/models/hub/infer", b"{", 400),
    ("POST", "/v2/models/hub/infer", TWO, 400),
    ("POST", "/v2/models/hub/infer", b'{"inputs": []}', 400),
    ("POST", "/v2/models/hub/versions/7/infer", b'{"inputs": []}', 404),
    ("POST", "/v2/models/nothing/infer", b'{"inputs": []}', 404),
    ("GET", "/v2/models/nothing", None, 404),
    ("GET", "/nothing", None, 404),
    ("GET", "/v1/identify/latest", None, 405),
    ("GET", "/v2/models/shop/infer", None, 405),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD)
def test_g02_rejections_are_json_with_error(server: Serving, method: str, path: str, body: Any, status: int) -> None:
    response = get(server.http, path) if method == "GET" else post(server.http, path, body)
    assert response.status == status, response.body
    assert response.headers["content-type"].startswith("application/json")
    assert response.error()


@pytest.mark.parametrize("app", ALL)
def test_g02_exceptions_of_apps_are_json_with_error(server: Serving, app: str) -> None:
    response = send_command(server.http, app, "fail")
    assert response.status == (400 if app == "modelbit" else 500)
    # Native models write the exception to the log only, unless debugging.
    assert ("ValueError" if app == "native" else "requested failure") in response.error()


def test_g03_running_requests_finish_before_exit(tmp_path: Path) -> None:
    folder = function_apps.write_apps(tmp_path)
    with function_apps.serving(folder) as serving:
        waiting = at_once([lambda app=app: send_command(serving.http, app, "wait") for app in ALL])
        until(lambda: all((folder / f"started-{app}").exists() for app in ALL), "a running call of each app")
        over, statuses = threading.Event(), []

        def load(app: str) -> None:
            while not over.is_set():
                try:
                    statuses.append(send_command(serving.http, app).status)
                except OSError:
                    # The server no longer listens.
                    return

        url = serving.http
        queued = at_once([lambda app=app: load(app) for app in ALL for _ in range(2)])
        until(lambda: _queued(url) >= len(ALL), "queued requests")
        serving.signal(signal.SIGTERM)
        until(lambda: not _is_ready(url), "readiness to end")
        (folder / "continue").touch()
        assert [identity_of(one.result())[0] for one in waiting] == list(ALL)
        over.set()
        for one in queued:
            one.result()
        assert serving.exit_status() == 0, serving.err
    assert statuses
    assert set(statuses) <= {200, 503}
    assert (folder / "finalized").exists()


def _is_ready(url: str) -> bool:
    try:
        return get(url, "/v2/health/ready").status == 200
    except OSError:
        return False


def _queued(url: str) -> float:
    return sum(value for _, value in _metric(url, "penstock_queue_depth"))


def _metric(url: str, name: str) -> list[tuple[str, float]]:
    """Returns the labels and value of each sample."""
    lines = get(url, "/metrics").body.decode().splitlines()
    samples = [line.removeprefix(name).rpartition(" ") for line in lines if line.startswith(f"{name}{{")]
    return [(labels, float(value)) for labels, _, value in samples]


def test_g04_one_metrics_page_covers_all_apps(folder: Path) -> None:
    with function_apps.serving(folder) as serving:
        for app in ALL:
            for text in ("name", "name", "fail"):
                send_command(serving.http, app, text)
        for model in ("shop", "identify", "hub", "native"):
            requests = [
                (labels, value) for labels, value in _metric(serving.http, "penstock_requests_total") if model in labels
            ]
            assert sum(value for labels, value in requests if 'outcome="ok"' in labels) >= 2, requests
            for name in ("queue_seconds", "compute_seconds", "batch_size"):
                counts = [value for labels, value in _metric(serving.http, f"penstock_{name}_count") if model in labels]
                assert max(counts) >= 2, (model, name)
        for model in ("shop", "hub", "native"):
            failed = [
                value
                for labels, value in _metric(serving.http, "penstock_requests_total")
                if f'"{model}"' in labels and 'outcome="handler"' in labels
            ]
            assert sum(failed) == 1.0, model
