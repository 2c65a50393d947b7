"""Three integrations and a native model in one server: isolated from each other, counted and drained together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import function_apps
import pytest
from function_apps import INTEGRATIONS, QUESTIONS, ask, told

from http_by_hand import get, post
from serving_process import Serving
from waiting import at_once, until

pytest.importorskip("yaml")

ALL = tuple(QUESTIONS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return function_apps.written(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="module")
def together(folder: Path) -> Iterator[Serving]:
    with function_apps.serving(folder) as serving:
        yield serving


def test_g01_all_are_served_by_one_command(together: Serving) -> None:
    assert [told(ask(together.http, who))[0] for who in ALL] == list(ALL)


def test_g01_each_has_its_own_modules_environment_and_folder(together: Serving) -> None:
    seen = {who: told(ask(together.http, who)) for who in ALL}
    assert {who: one[:2] for who, one in seen.items()} == {who: [who, who] for who in ALL}
    assert {who: seen[who][2] for who in INTEGRATIONS} == {
        "inferless": "shop",
        "modelbit": "asked",
        "openinference": "hub",
    }
    assert seen["native"][3] == together.process.pid
    assert len({one[3] for one in seen.values()}) == len(ALL)


@pytest.mark.parametrize("who", INTEGRATIONS)
def test_g01_one_that_dies_takes_no_other_with_it(together: Serving, who: str) -> None:
    before = {each: told(ask(together.http, each)) for each in ALL}
    assert ask(together.http, who, "end").status in (400, 500)
    for each in set(ALL) - {who}:
        assert told(ask(together.http, each)) == before[each]
    # Whoever asks while it starts again is told so.
    again = until(lambda: (one := ask(together.http, who)).status == 200 and one, "its process")
    assert told(again)[:3] == before[who][:3]
    assert told(again)[3] != before[who][3]


def test_g01_in_the_servers_process_modules_stay_apart(folder: Path) -> None:
    targets = ("shop", "repository", "hub/function.json")
    with function_apps.serving(folder, "--option", "isolation=server", targets=targets) as serving:
        seen = {who: told(ask(serving.http, who)) for who in INTEGRATIONS}
    assert {who: one[0] for who, one in seen.items()} == {who: who for who in INTEGRATIONS}
    assert {one[3] for one in seen.values()} == {serving.process.pid}


OTHER = b'{"inputs": [{"name": "other", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}'
NUMBER = b'{"inputs": [{"name": "ask", "shape": [1], "datatype": "FP32", "data": [1]}]}'
TWO = b'{"inputs": [{"name": "ask", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]}'
BAD: list[tuple[str, str, Any, int]] = [
    ("POST", "/v2/models/shop/infer", b"{", 400),
    ("POST", "/v2/models/shop/infer", b"[]", 400),
    ("POST", "/v2/models/shop/infer", OTHER, 400),
    ("POST", "/v2/models/shop/infer", NUMBER, 400),
    ("POST", "/v2/models/shop/versions/7/infer", b'{"inputs": []}', 404),
    ("POST", "/v1/asked/latest", b"{", 400),
    ("POST", "/v1/asked/latest", b"[]", 400),
    ("POST", "/v1/asked/latest", b'{"data": [1, 2, 3]}', 400),
    ("POST", "/v1/asked/latest", b'{"data": {"data": 1}}', 400),
    ("POST", "/v1/asked/7", b'{"data": "a"}', 404),
    ("POST", "/v1/nothing/latest", b'{"data": "a"}', 404),
    ("POST", "/v1/endpoint/nothing", b'{"data": "a"}', 404),
    ("POST", "/v2/models/hub/infer", b"{", 400),
    ("POST", "/v2/models/hub/infer", TWO, 400),
    ("POST", "/v2/models/hub/infer", b'{"inputs": []}', 400),
    ("POST", "/v2/models/hub/versions/7/infer", b'{"inputs": []}', 404),
    ("POST", "/v2/models/nothing/infer", b'{"inputs": []}', 404),
    ("GET", "/v2/models/nothing", None, 404),
    ("GET", "/nothing", None, 404),
    ("GET", "/v1/asked/latest", None, 405),
    ("GET", "/v2/models/shop/infer", None, 405),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status"), BAD)
def test_g02_every_refusal_is_json_with_error(
    together: Serving, method: str, path: str, body: Any, status: int
) -> None:
    answer = get(together.http, path) if method == "GET" else post(together.http, path, body)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.error()


@pytest.mark.parametrize("who", ALL)
def test_g02_what_code_raises_is_json_with_error(together: Serving, who: str) -> None:
    answer = ask(together.http, who, "fail")
    assert answer.status == (400 if who == "modelbit" else 500)
    # Penstock's own models say what was raised in the log alone, unless debugging.
    assert ("ValueError" if who == "native" else "as was asked") in answer.error()


def test_g03_what_is_under_way_ends_and_nothing_is_cut(tmp_path: Path) -> None:
    folder = function_apps.written(tmp_path)
    with function_apps.serving(folder) as serving:
        waiting = at_once([lambda who=who: ask(serving.http, who, "wait") for who in ALL])
        until(lambda: all((folder / f"begun-{who}").exists() for who in ALL), "a call of each")
        over, statuses = threading.Event(), []

        def load(who: str) -> None:
            while not over.is_set():
                try:
                    statuses.append(ask(serving.http, who).status)
                except OSError:
                    # It listens no more.
                    return

        url = serving.http
        queued = at_once([lambda who=who: load(who) for who in ALL for _ in range(2)])
        until(lambda: _queued(url) >= len(ALL), "requests that wait behind them")
        serving.signal(signal.SIGTERM)
        until(lambda: not _is_ready(url), "the end of its being ready")
        (folder / "go").touch()
        assert [told(one.result())[0] for one in waiting] == list(ALL)
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
    """The labels and value of each sample."""
    lines = get(url, "/metrics").body.decode().splitlines()
    samples = [line.removeprefix(name).rpartition(" ") for line in lines if line.startswith(f"{name}{{")]
    return [(labels, float(value)) for labels, _, value in samples]


def test_g04_one_page_of_metrics_tells_of_each(folder: Path) -> None:
    with function_apps.serving(folder) as serving:
        for who in ALL:
            for text in ("name", "name", "fail"):
                ask(serving.http, who, text)
        for model in ("shop", "asked", "hub", "native"):
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
            assert failed == [1.0], model
