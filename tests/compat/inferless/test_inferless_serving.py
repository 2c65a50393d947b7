"""Loading, projects, timeouts, volumes and stop: I-21, I-23, I-24, I-31, G-03."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from inferless_apps import ANY, app_class, served, tensor, write_app

from penstock import StartupError
from penstock.compat import inferless
from waiting import until

ECHO = app_class("def infer(self, inputs): return {'y': inputs.get('x', 'nothing')}")
SCHEMA = (
    'INPUT_SCHEMA = {"prompt": {"datatype": "STRING", "shape": [1]},'
    ' "sizes": {"datatype": "INT16", "shape": [-1], "required": False}}'
)


def test_i21_v2_paths_are_served(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {'y': inputs['prompt']}")
    with served(write_app(tmp_path, app, SCHEMA)) as api:
        body = {"inputs": [tensor("prompt", "BYTES", "hi")]}
        for verb in ("infer", "versions/1/infer"):
            assert api.post(verb, body).json()["outputs"][0]["data"] == ["hi"]
        metadata = api.client.get("/v2/models/shop")
        assert metadata.json() == {
            "name": "shop",
            "versions": ["1"],
            "platform": "inferless",
            "inputs": [
                {"name": "prompt", "datatype": "BYTES", "shape": [1]},
                {"name": "sizes", "datatype": "INT16", "shape": [-1], "optional": True},
            ],
            "outputs": [],
        }
        assert api.client.get("/v2/models/shop/versions/1").json() == metadata.json()
        for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/shop/ready", "/v2/models/shop/config"):
            assert api.client.get(path).status == 200, path
        assert api.client.get("/v2/models").json() == {"models": ["shop"]}
        response = api.client.post("/v2/models/other/infer", '{"inputs": []}')
        assert (response.status, list(response.json())) == (404, ["error"])


def test_i34_openapi_description_has_the_inputs_and_a_curl_command(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {'y': inputs['prompt']}")
    with served(write_app(tmp_path, app, SCHEMA)) as api:
        document = api.client.get("/openapi.json").body.decode()
        assert "/v2/models/shop/infer" in document
        assert "- `prompt`: BYTES of shape [1]" in document
        assert "- `sizes`: INT16 of shape [-1], optional" in document
        assert "curl http://localhost:8000/v2/models/shop/infer" in document


def test_i21_load_rereads_files_and_unload_rejects_requests(tmp_path: Path) -> None:
    home = write_app(tmp_path, ECHO)
    with served(home) as api:
        (home / "app.py").write_text(app_class("def infer(self, inputs): return {'z': 'new'}"))
        (home / "input_schema.py").write_text(ANY.replace('"x"', '"other"'))
        assert api.data() == ["nothing"]
        assert api.client.post("/v2/repository/models/shop/load").status == 200
        assert api.outputs() == {"z": ("BYTES", [1], ["new"])}
        assert api.client.get("/v2/models/shop").json()["inputs"][0]["name"] == "other"
        assert api.client.post("/v2/repository/models/shop/unload").status == 200
        assert api.error_of() == (503, "model 'shop' is unloaded")
        assert api.client.post("/v2/repository/models/shop/load").status == 200
        assert api.data() == ["new"]


def test_i21_failed_reload_keeps_the_previous_code(tmp_path: Path) -> None:
    home = write_app(tmp_path, ECHO)
    with served(home) as api:
        (home / "app.py").write_text("undefined_thing\n")
        response = api.client.post("/v2/repository/models/shop/load")
        assert response.status == 400
        assert response.error() == "model 'shop' cannot be loaded: NameError: name 'undefined_thing' is not defined"
        assert api.data() == ["nothing"]


VERSION_1 = """
version: 1.0.0
name: my shop
import_source: LOCAL
configuration:
  inference_time: '90'
  container_concurrency: '3'
  custom_volume_name: null
  is_serverless: false
env:
  COLOUR: red
  COUNT: 3
secrets: []
optional:
  runtime_file_name: mine.yaml
"""
VERSION_2 = "version: 2.0.0\nname: shop-two\nimport_source: GIT\nsource_framework_type: PYTORCH\n"


def test_i23_project_file_of_version_1(tmp_path: Path) -> None:
    from penstock.compat.inferless._load import settings_of
    from penstock.compat.inferless._spec.app_files import read_app

    home = write_app(tmp_path, ECHO, inferless__yaml=VERSION_1, mine__yaml="build:\n  run: [true]\n")
    app = read_app(home)
    settings = settings_of(app, {})
    assert (settings.name, settings.timeout, settings.container_concurrency) == ("my-shop", 90.0, 3)
    assert settings.env == {"COLOUR": "red", "COUNT": "3"}
    assert app.runtime.commands == ("true",)
    assert settings_of(app, {"timeout": "5", "name": "other", "env": "COLOUR=blue"}).env["COLOUR"] == "blue"


def test_i23_project_file_of_version_2(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO, inferless__yaml=VERSION_2)) as api:
        assert api.name == "shop-two"
        assert api.data() == ["nothing"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("inference_time: soon\n", "inferless.yaml: inference_time must be a number, not 'soon'"),
        ("- a\n", "inferless.yaml must hold names with values, not a list"),
        ("a: [\n", "inferless.yaml is not YAML"),
    ],
)
def test_i23_invalid_project_files_are_rejected(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StartupError, match=problem):
        inferless.load(write_app(tmp_path, ECHO, inferless__yaml=text), {})


SLEEPS = app_class("def infer(self, inputs):\n    if inputs.get('x'): time.sleep(30)\n    return {'y': os.getpid()}")


def test_i24_timeout_is_504_and_the_worker_stays(tmp_path: Path) -> None:
    with served(write_app(tmp_path, SLEEPS), timeout="0.3") as api:
        before = api.data()
        assert api.error_of(tensor("x", "BYTES", "a")) == (504, "infer did not answer within 0.3s")
        assert api.data() == before


def test_i24_timeout_interrupts_an_app_that_catches_exceptions(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs):\n    try: time.sleep(30)\n    except Exception: pass\n    return {'y': 'caught'}"
    )
    with served(write_app(tmp_path, app), timeout=0.3) as api:
        assert api.error_of()[0] == 504


def test_i24_uninterruptible_call_is_killed(tmp_path: Path) -> None:
    app = app_class(
        """
        def infer(self, inputs):
            import signal
            if inputs.get("x"):
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
                time.sleep(60)
            return {"y": 1}
        """
    )
    with served(write_app(tmp_path, app), timeout=0.3) as api:
        status, message = api.error_of(tensor("x", "BYTES", "a"))
        assert status == 500
        assert "its process did not answer within 5.3s and was killed" in message
        until(lambda: api.infer().status == 200, "the new process")


def test_g01_crash_does_not_affect_other_apps(tmp_path: Path) -> None:
    from penstock.testing import Client

    dies = write_app(tmp_path / "a", app_class("def infer(self, inputs): os._exit(3)"))
    lives = write_app(tmp_path / "b", ECHO)
    with Client(*inferless.load(dies, {"name": "dies"}), *inferless.load(lives, {"name": "lives"})) as client:
        response = client.post("/v2/models/dies/infer", '{"inputs": []}')
        assert response.status == 500
        assert "its process exited with code 3" in response.error()
        assert client.post("/v2/models/lives/infer", '{"inputs": []}').status == 200


def test_i24_async_app_is_cancelled(tmp_path: Path) -> None:
    app = app_class(
        """
        state = "running"
        async def infer(self, inputs):
            import asyncio
            try:
                await asyncio.sleep(30 if inputs.get("x") else 0)
            except asyncio.CancelledError:
                type(self).state = "cancelled"
                raise
            return {"y": self.state}
        """
    )
    with served(write_app(tmp_path, app), timeout=0.3) as api:
        assert api.error_of(tensor("x", "BYTES", "a"))[0] == 504
        assert api.data() == ["cancelled"]


def test_i24_project_file_sets_the_time_limit(tmp_path: Path) -> None:
    home = write_app(tmp_path, SLEEPS, inferless__yaml="name: a\ninference_time: '0.3'\n")
    with served(home) as api:
        assert api.error_of(tensor("x", "BYTES", "a"))[0] == 504


def test_i31_environment_variables_and_volumes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "volumes" / "models").mkdir(parents=True)
    project = "name: a\nenv: {COLOUR: red}\nsecrets: [TOKEN, OTHER]\nconfiguration: {custom_volume_name: models}\n"
    app = app_class(
        "def infer(self, inputs): return {n: os.environ.get(n, '-') for n in ('COLOUR', 'TOKEN', 'NFS_VOLUME')}"
    )
    home = write_app(tmp_path, app, inferless__yaml=project)
    options = {"env": {"TOKEN": "t"}, "volumes": str(tmp_path / "volumes")}
    with caplog.at_level(logging.WARNING), served(home, **options) as api:
        variables = {name: one[2][0] for name, one in api.outputs().items()}
    assert variables == {"COLOUR": "red", "TOKEN": "t", "NFS_VOLUME": str(tmp_path / "volumes" / "models")}
    assert "secrets missing in the environment: OTHER" in caplog.text
    with pytest.raises(StartupError, match="there is no folder"):
        inferless.load(home, {"volumes": str(tmp_path / "nowhere")})


def test_g03_running_calls_finish_and_finalize_is_called(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    app = app_class(
        """
        def infer(self, inputs):
            open('started', 'w').close()
            time.sleep(0.5)
            return {'y': 1}
        def finalize(self): open('ended', 'w').close()
        """
    )
    home = write_app(tmp_path, app)
    with ThreadPoolExecutor(1) as pool:
        with served(home) as api:
            running = pool.submit(api.data)
            until((home / "started").exists, "the call to start")
        assert running.result() == [1]
    until((home / "ended").exists, "finalize")


def test_g02_invalid_bodies_are_rejected_as_json(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO)) as api:
        for body, problem in (
            ("{", "the body is not JSON"),
            ("[]", "the body must be a JSON object with 'inputs' or 'parameters'"),
            ('{"inputs": 3}', "'inputs' must be a list of tensors"),
            ('{"inputs": [3]}', "inputs[0] must be an object with a 'name'"),
            ('{"inputs": [{"name": "x"}]}', "input 'x' has no 'data'"),
            ('{"inputs": [{"name": "x", "data": ["a"], "shape": ["b"]}]}', "input 'x': 'shape' must be a list"),
            ('{"inputs": [{"name": "x", "data": ["a"], "datatype": 3}]}', "input 'x': 'datatype' must be a string"),
            ('{"parameters": 3}', "'parameters' must be an object of inputs by name"),
            ('{"id": "\\ud800"}', "the body is not JSON: 'id' has half of a surrogate pair, expected Unicode text"),
            ('{"parameters": {"x": ["\\ud800"]}}', "the body is not JSON: 'parameters.x[0]' has half of a"),
            ('{"id": 3}', "'id' must be a string"),
            ('{"outputs": 3}', "'outputs' must be a list of objects with a 'name'"),
        ):
            response = api.client.post("/v2/models/shop/infer", body)
            assert response.status == 400
            assert response.error().startswith(problem)
