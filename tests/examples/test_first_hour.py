"""The seven apps of the first hour: each responds to the line that its server prints, and together they are short."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from pages import blocks
from penstock import Client
from serving_process import Serving
from waiting import at_once

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "first_hour"
APPS = ("rows", "photo", "chat", "two", "upstream", "spelling", "clients")
MOST_LINES = 70
"""Most lines of the seven apps together, without blank ones and comments."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the apps, with the files that they need."""
    for package in ("sklearn", "onnx", "onnxruntime", "PIL", "httpx"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("first") / "hour"
    copytree(FOLDER, folder)
    subprocess.run([sys.executable, "prepare.py"], cwd=folder, check=True, timeout=120)
    return folder


@pytest.fixture
def upstream() -> Iterator[str]:
    """The URL of another service, whose page has four words."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"four words of text")

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def is_species(answers: list[Any]) -> bool:
    return answers[0][0] in ("setosa", "versicolor", "virginica") and len(answers[0]) == 1


def is_a_flower(answers: list[Any]) -> bool:
    [[scores]] = answers
    return scores["flower"] > 0.9 and scores["flower"] + scores["temple"] == pytest.approx(1, abs=1e-5)


def is_a_chat(answers: list[Any]) -> bool:
    streamed, chat = answers
    text = "".join(json.loads(line.removeprefix("data: ")) for line in streamed.splitlines() if line)
    [choice] = chat["choices"]
    return len(text) > 100 and len(choice["message"]["content"]) > 100 and choice["finish_reason"] == "stop"


def are_two_models(answers: list[Any]) -> bool:
    [species], [score] = ([*answer["outputs"][0]["data"]] for answer in answers)
    return species in (0, 1, 2) and -1 <= score < 0


def is_four_words(answers: list[Any]) -> bool:
    return answers == [4]


def is_spelt(answers: list[Any]) -> bool:
    return answers[0][0] == "text" and len(answers[0]) == 3


def is_progression(answers: list[Any]) -> bool:
    [output] = answers[0]["outputs"]
    return output["shape"] == [1] and 25 <= output["data"][0] <= 346


CHECKS: dict[str, Callable[[list[Any]], bool]] = {
    "rows": is_species,
    "photo": is_a_flower,
    "chat": is_a_chat,
    "two": are_two_models,
    "upstream": is_four_words,
    "spelling": is_spelt,
    "clients": is_progression,
}


@pytest.mark.parametrize("app", APPS)
def test_app_responds_to_each_line_that_its_server_prints(app: str, folder: Path, upstream: str) -> None:
    environment = {"PENSTOCK_HTTP": "127.0.0.1:0", "PENSTOCK_GRPC": "127.0.0.1:0", "UPSTREAM": upstream}
    with Serving(f"{app}.py", folder=folder, environment=environment, patience=120) as server:
        lines = re.findall(r"^try   (.+)$", server.out, re.MULTILINE)
        answers = [run(line, folder) for line in lines]
    assert CHECKS[app](answers), (lines, answers)


def run(line: str, folder: Path) -> Any:
    """The response to a line, as JSON if it is a document."""
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout if done.stdout.startswith("data: ") else json.loads(done.stdout)


def test_apps_are_short_together() -> None:
    source = [line.strip() for app in APPS for line in (FOLDER / f"{app}.py").read_text().splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in source) <= MOST_LINES


def test_page_has_the_apps_as_they_are() -> None:
    shown = [block.text for block in blocks((ROOT / "docs/apps.md").read_text()) if block.language == "python"]
    assert shown == [(FOLDER / f"{app}.py").read_text() for app in APPS]


def test_two_hundred_clients_share_calls(folder: Path) -> None:
    data = pytest.importorskip("sklearn.datasets").load_diabetes().data[:200]
    environment = {"PENSTOCK_HTTP": "127.0.0.1:0", "PENSTOCK_GRPC": "127.0.0.1:0"}
    with (
        Serving("clients.py", folder=folder, environment=environment, patience=120) as server,
        Client(server.http) as client,
    ):
        alone = [float(client.infer("diabetes", row=[row]).value[0]) for row in data[:3]]
        before = client.statistics("diabetes")["model_stats"][0]
        together = [call.result() for call in at_once(lambda row=row: ask(client, row) for row in data)]
        after = client.statistics("diabetes")["model_stats"][0]
    assert together[:3] == pytest.approx(alone)
    assert len({*together}) > 50
    assert int(after["inference_count"]) - int(before["inference_count"]) == 200
    # A forest takes milliseconds a call; the requests of 200 threads arrive meanwhile.
    assert int(after["execution_count"]) - int(before["execution_count"]) < 100


def ask(client: Client, row: Any) -> float:
    return float(client.infer("diabetes", row=[row]).value[0])


def test_waiting_calls_of_the_async_app_overlap(folder: Path) -> None:
    """All 16 requests wait at the other service at once; it responds when the last one has come."""
    together = threading.Barrier(16, timeout=60)

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            together.wait()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"one")

        def log_message(self, *arguments: Any) -> None:
            pass

    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    environment = {
        "PENSTOCK_HTTP": "127.0.0.1:0",
        "PENSTOCK_GRPC": "127.0.0.1:0",
        "UPSTREAM": f"http://127.0.0.1:{service.server_port}",
    }
    with (
        Serving("upstream.py", folder=folder, environment=environment, patience=120) as server,
        Client(server.http) as client,
    ):
        calls = at_once(lambda: client.infer("words").json() for _ in range(16))
        assert [call.result() for call in calls] == [1] * 16
    service.shutdown()
    service.server_close()
