"""Functions in the server's process, and background tasks on stop."""

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

from penstock import LoadError, Server
from penstock.compat import modelbit

SLOW = Files("import time\ndef slow(x):\n    time.sleep(x)\n    return x\n", "slow")
PLAIN = Files("import os\ndef f(x):\n    return ['plain', x, os.getpid()]\n", "f")
WAITS = Files(
    "import asyncio, os\nasync def f(x):\n    await asyncio.sleep(x)\n    return ['waits', x, os.getpid()]\n", "f"
)
IN_SERVER = {"isolation": "server"}


def served(folder: Path, options: dict[str, Any] = IN_SERVER) -> Server:
    return Server(*modelbit.load(folder, options), http="127.0.0.1:0", grpc=None)


def test_m06_functions_are_deployed_into_the_current_process(tmp_path: Path) -> None:
    with modelbit.Workspace(tmp_path, address="127.0.0.1:0", **IN_SERVER) as workspace:
        client = HttpClient(workspace.url, tmp_path)
        workspace.deploy(lambda x: ["first", x, os.getpid()], name="f")
        assert client.call("f", 1).data == ["first", 1, os.getpid()]
        workspace.deploy(lambda x: ["second", x], name="f")
        workspace.deploy(lambda x: ["other", x], name="g")
        assert client.call("f", [[1, 2]]).data == [[1, ["second", 2]]]
        assert client.call("/v1/f/1", 1).data[:2] == ["first", 1]
        assert client.call("g", 1).data == ["other", 1]
        assert client.raw("/v1/f").json["branches"]["main"]["latest"] == 2


@pytest.mark.parametrize(("first", "second"), [(PLAIN, WAITS), (WAITS, PLAIN)])
def test_m18_versions_may_be_sync_and_async(tmp_path: Path, first: Files, second: Files) -> None:
    folder = write_repository(tmp_path, {"f@1": first, "f@2": second, "b:f@1": first, "b:f@2": second})
    (folder / "endpoints").mkdir()
    (folder / "endpoints" / "e.yaml").write_text("backends:\n  a:\n    deployment: {name: f, version: 1}\n")
    kinds = ["waits" if one is WAITS else "plain" for one in (first, second)]
    with served(folder) as server:
        client = HttpClient(server.http_url, folder)
        for path, kind in (("f/1", kinds[0]), ("f/latest", kinds[1]), ("f/b/1", kinds[0]), ("f/b/2", kinds[1])):
            assert client.call(f"/v1/{path}", 0).data == [kind, 0, os.getpid()]
            assert client.call(f"/v1/{path}", [[1, 0]], timeout_seconds=5).data == [[1, [kind, 0, os.getpid()]]]
        assert client.call("/v1/endpoint/e", 0).data[0] == kinds[0]
        assert client.call("/v1/f/1", 0, response_format="links").data.startswith(server.http_url)


@pytest.mark.parametrize("name", ["slow", "f"])
def test_m13_option_timeout_is_enforced(tmp_path: Path, name: str) -> None:
    folder = write_repository(tmp_path, {"slow": SLOW, "f": WAITS})
    with served(folder, {**IN_SERVER, "timeout": "0.3"}) as server:
        start = time.monotonic()
        response = HttpClient(server.http_url, folder).call(name, 4)
        assert time.monotonic() - start < 3
        assert (response.status, response.error) == (408, f"deployment {name!r} did not answer within 0.3 seconds")


def test_m13_workers_are_threads(tmp_path: Path) -> None:
    folder = write_repository(tmp_path, {"slow": SLOW})
    with served(folder, {**IN_SERVER, "workers": 4}) as server, ThreadPoolExecutor(4) as threads:
        client = HttpClient(server.http_url, folder)
        start = time.monotonic()
        assert [one.data for one in threads.map(lambda _: client.call("slow", 1), range(4))] == [1] * 4
        assert time.monotonic() - start < 3, "sequential calls take four seconds"


def test_m17_load_errors_are_reported(tmp_path: Path) -> None:
    folder = write_repository(tmp_path, {"f": Files("import no_such_module\ndef f(x):\n    return x\n", "f")})
    with pytest.raises(LoadError, match="no_such_module"):
        served(folder).start()


def test_g04_metrics_name_the_deployment(tmp_path: Path) -> None:
    folder = write_repository(tmp_path, {"f": PLAIN})
    with served(folder) as server:
        client = HttpClient(server.http_url, folder)
        client.call("f", 1)
        text = client.raw("/metrics").body.decode()
        assert [line for line in text.splitlines() if line.startswith('penstock_requests_total{model="f"')]


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_g03_pending_webhooks_are_posted_on_stop(tmp_path: Path, isolation: str) -> None:
    folder = write_repository(tmp_path, {"slow": SLOW})

    def respond(_: int, __: Posted) -> tuple[int, Any]:
        time.sleep(0.3)
        return 200, {}

    with run_receiver(respond) as receiver:
        server = served(folder, {"isolation": isolation, "webhooks": "127.0.0.1"}).start()
        response = HttpClient(server.http_url, folder).call("slow", 0.4, response_webhook=receiver.url)
        assert "batchId" in response.json
        assert server.stop() == []
        (request,) = receiver.requests
        assert request.body == {"data": 0.4}


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_g03_stop_under_load_loses_no_request(tmp_path: Path, isolation: str) -> None:
    """Each request gets its own result or is rejected; none is lost."""
    folder = write_repository(tmp_path, {"slow": SLOW})
    server = served(folder, {"isolation": isolation, "workers": 2}).start()
    client = HttpClient(server.http_url, folder)
    responses: list[Any] = []

    def infer(_: int) -> None:
        while True:
            try:
                response = client.call("slow", [[1, 0.02], [2, 0.01]])
            except OSError:
                # The socket is closed, so the server did not accept the request.
                return
            responses.append(response)
            if response.status != 200:
                return

    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(infer, place) for place in range(8)]
        wait_for(lambda: len(responses) > 20)
        assert server.stop() == []
        for one in running:
            one.result()
    assert {one.status for one in responses} <= {200, 503}
    assert all(one.data == [[1, 0.02], [2, 0.01]] for one in responses if one.status == 200)


def test_m01_greeting_has_working_curl_commands(tmp_path: Path) -> None:
    arguments = {"runtimeInfo": {"mainFunctionArgs": ["x:int", "y:str", "return:float"]}}
    frame = {"dataframeModeColumns": [{"name": "a", "dtype": "float64"}, {"name": "b", "dtype": "object"}]}
    folder = write_repository(
        tmp_path,
        {
            "both": Files("def both(x, y):\n    return [x, y]\n", "both", arguments),
            "frame": Files("def frame(df):\n    return df['b']\n", "frame", frame),
        },
    )
    lines = modelbit.greeting(modelbit.load(folder, {}), "URL")
    assert lines == [
        """curl URL/v1/both/latest -d '{"data": [[1, 1, "text"]]}'""",
        """curl URL/v1/frame/latest -d '{"data": [[1, {"a": 1.5, "b": "text"}]]}'""",
    ]
    with served(folder) as server:
        client = HttpClient(server.http_url, folder)
        for line, expected in zip(lines, ([[1, [1, "text"]]], [[1, "text"]]), strict=True):
            path, _, body = line.removeprefix("curl URL").partition(" -d ")
            assert client.call(path, json.loads(body.strip("'"))["data"]).data == expected
