"""Apps in the server's process, compared to worker processes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from inferless_apps import ANY, app_class, served, tensor, write_app

from penstock import LoadError, StartupError
from penstock.compat import inferless
from penstock.testing import Client

SERVER: dict[str, Any] = {"isolation": "server"}
PID = app_class("def infer(self, inputs): return {'pid': os.getpid(), 'name': __name__}")


def test_isolation_option_selects_the_process(tmp_path: Path) -> None:
    home = write_app(tmp_path, PID)
    with served(home, **SERVER) as api:
        outputs = api.outputs()
        assert outputs["pid"][2] == [os.getpid()]
        assert outputs["name"][2] != ["app"]
    with served(home) as api:
        assert api.outputs()["pid"][2] != [os.getpid()]


def test_g01_modules_of_equal_names_do_not_collide(tmp_path: Path) -> None:
    app = "from helpers import WORD\n" + app_class("def infer(self, inputs): return {'y': WORD}")
    before = (os.getcwd(), list(sys.path), dict(os.environ))
    homes = [write_app(tmp_path / word, app, helpers__py=f"WORD = '{word}'\n") for word in ("one", "two")]
    models = [one for home in homes for one in inferless.load(home, {**SERVER, "name": home.parent.name})]
    with Client(*models) as client:
        for word in ("one", "two"):
            assert client.post(f"/v2/models/{word}/infer", "{}").json()["outputs"][0]["data"] == [word]
    assert (os.getcwd(), list(sys.path), dict(os.environ)) == before
    assert not {"app", "helpers", "input_schema"} & set(sys.modules)


CONFIG = """
import inferless
from pydantic import BaseModel, Field

@inferless.request
class Request(BaseModel):
    x: str = Field(default="-")

@inferless.config
class Config(BaseModel):
    IS_STREAMING_OUTPUT: bool = Field(default=True)

class InferlessPythonModel:
    def infer(self, request, handler):
        handler.send_streamed_output({"y": request.x})
"""


def test_config_variables_are_private_to_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_WINDOW", "7")
    pytest.importorskip("pydantic")
    models = inferless.load(write_app(tmp_path / "a", CONFIG, None), {**SERVER, "name": "a"})
    classes = CONFIG.partition("@inferless.config")[0] + (
        "class InferlessPythonModel:\n    def infer(self, request): return {'y': request.x}\n"
    )
    models += inferless.load(write_app(tmp_path / "b", classes, None), {**SERVER, "name": "b"})
    assert "IS_STREAMING_OUTPUT" not in os.environ
    assert os.environ["BATCH_WINDOW"] == "7"
    with Client(*models) as client:
        response = client.post("/v2/models/a/infer", '{"parameters": {"x": "hi"}}')
        assert response.body == b'data: {"model_name": "a", "model_version": "1", "y": "hi"}\n\n'
        assert client.post("/v2/models/b/infer", "{}").json()["outputs"][0]["data"] == ["-"]


def test_batched_requests_share_a_call(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return [{'y': len(inputs)} for _ in inputs]")
    home = write_app(tmp_path, app, ANY + "BATCH_SIZE = 2\nBATCH_WINDOW = 5000\n")
    results: list[Any] = []
    with served(home, **SERVER) as api:
        threads = [threading.Thread(target=lambda: results.append(api.data(tensor("x", "BYTES", "a")))) for _ in "ab"]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert results == [[2], [2]]


def test_async_app_keeps_its_event_loop(tmp_path: Path) -> None:
    app = "import asyncio\n" + app_class(
        "async def initialize(self): self.loop = asyncio.get_running_loop()\n"
        "async def infer(self, inputs): return {'y': asyncio.get_running_loop() is self.loop}"
    )
    for more in ({}, {"container_concurrency": 2}, {"timeout": 20}):
        with served(write_app(tmp_path, app), **SERVER, **more) as api:
            assert api.data() == [True]


@pytest.mark.parametrize("form", ["while time.sleep(0.01) is None: pass", "time.sleep(1.2)"])
def test_i24_timeout_is_504_and_the_app_stays_loaded(tmp_path: Path, form: str) -> None:
    app = app_class(f"def infer(self, inputs):\n    if inputs.get('x'):\n        {form}\n    return {{'y': 1}}")
    with served(write_app(tmp_path, app), **SERVER, timeout=0.3) as api:
        for _ in range(2):
            status, message = api.error_of(tensor("x", "BYTES", "a"))
            assert (status, message) == (504, "infer did not answer within 0.3s")
        if "while" in form:
            assert api.data() == [1]


def test_late_interrupt_does_not_reach_the_next_task() -> None:
    from penstock import Timeout
    from penstock.compat.inferless._app.streams import AppThread

    thread = AppThread()
    late = 0
    for at in range(400):
        ended = threading.Event()
        try:
            assert thread.run_within(lambda ended=ended: ended.wait(0.0005), 0.0005 + at % 3 * 1e-5) is False
        except Timeout:
            late += 1
        assert thread.run(lambda at=at: at) == at
    assert late
    thread.close()


def test_exceptions_and_finalize_in_the_servers_process(tmp_path: Path) -> None:
    app = app_class(
        "def initialize(self): self.n = 0\n"
        "def infer(self, inputs):\n    raise ValueError('dark')\n"
        f"def finalize(self): open({str(tmp_path / 'ended')!r}, 'w').close()"
    )
    with served(write_app(tmp_path, app), **SERVER, api_key="k") as api:
        assert api.post("infer", {}).status == 401
        response = api.post("infer", {}, Authorization="Bearer k")
        assert (response.status, response.error()) == (500, "infer failed: ValueError: dark")
    assert (tmp_path / "ended").exists()


def test_load_request_reloads_the_app(tmp_path: Path) -> None:
    app = "from helpers import WORD\n" + app_class("def infer(self, inputs): return {'y': WORD}")
    home = write_app(tmp_path, app, helpers__py="WORD = 'one'\n")
    with served(home, **SERVER) as api:
        assert api.data() == ["one"]
        (home / "helpers.py").write_text("WORD = 'other'\n")
        assert api.data() == ["one"]
        assert api.client.post("/v2/repository/models/shop/load", "{}").status == 200
        assert api.data() == ["other"]
        (home / "helpers.py").write_text("WORD = \n")
        assert api.client.post("/v2/repository/models/shop/load", "{}").status == 400
        assert api.data() == ["other"]
        assert api.client.post("/v2/repository/models/shop/unload", "{}").status == 200
        assert api.error_of() == (503, "model 'shop' is unloaded")


def test_load_errors_are_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = write_app(tmp_path, PID)
    for options, problem in (
        ({"workers": "2"}, "the options 'workers' and 'gpus' require isolation=process"),
        ({"isolation": "moon"}, "option isolation: got 'moon', expected process or server"),
    ):
        with pytest.raises(StartupError, match=problem):
            inferless.load(home, {**SERVER, **options})
    with pytest.raises(LoadError, match=r"cannot import the app in .*: ModuleNotFoundError: No module named 'nowhere'"):
        inferless.load(write_app(tmp_path, "import nowhere\n" + PID), SERVER)
    assert "import nowhere" in capfd.readouterr().err
    with pytest.raises(StartupError, match="INPUT_SCHEMA must be a dict"):
        inferless.load(write_app(tmp_path, PID, "INPUT_SCHEMA = 3\n"), SERVER)


def test_option_env_sets_the_servers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_WORD", "before")
    home = write_app(tmp_path, app_class("def infer(self, inputs): return {'y': os.environ['SHOP_WORD']}"))
    with served(home, **SERVER, env="SHOP_WORD=option") as api:
        assert api.data() == ["option"]
    assert os.environ["SHOP_WORD"] == "option"
