"""Forms of apps and their loading: I-01, I-02, I-17, I-32."""

from __future__ import annotations

from pathlib import Path

import pytest
from inferless_apps import ANY, app_class, live, served, tensor, write_app

from penstock import LoadError, StartupError
from penstock.compat import inferless
from waiting import until

ECHO = app_class("def infer(self, inputs): return {'y': inputs.get('x', 'nothing')}")


def test_i01_folder_with_app_and_schema_is_detected_and_served(tmp_path: Path) -> None:
    home = write_app(tmp_path, ECHO)
    finding = inferless.detect(home)
    assert finding is not None
    assert (finding.integration, finding.confidence) == ("inferless", 95)
    with served(home) as app:
        assert app.client.get("/v2/models/shop/ready").status == 200
        assert app.outputs(tensor("x", "BYTES", "hi")) == {"y": ("BYTES", [1], ["hi"])}


def test_i01_app_is_served_over_a_socket(tmp_path: Path) -> None:
    import json
    from urllib.request import Request, urlopen

    with live(write_app(tmp_path, ECHO)) as url:
        body = json.dumps({"inputs": [tensor("x", "BYTES", "hi")]}).encode()
        with urlopen(Request(f"{url}/infer", body)) as response:
            assert json.load(response)["outputs"][0]["data"] == ["hi"]


@pytest.mark.parametrize("name", ["main.py", "app.py"])
def test_native_models_are_not_detected(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("from penstock import model\n\n@model\ndef double(x: int) -> int: return 2 * x\n")
    assert inferless.detect(tmp_path / name) is None
    assert inferless.detect(tmp_path) is None


def test_detect_runs_no_code(tmp_path: Path) -> None:
    home = write_app(tmp_path, "raise SystemExit('run')\nclass InferlessPythonModel: pass\n")
    assert inferless.detect(home) is not None


LOG = "import pathlib\ndef log(word):\n    with open(os.environ['LOG'], 'a') as file: file.write(word + ' ')\n"

FORMS = {
    # Declarations of the three methods.
    "plain": ("def initialize(self)", "def infer(self, inputs)", "def finalize(self)"),
    "context": ("def initialize(self, context=None)", "def infer(self, inputs)", "def finalize(self)"),
    "context needed": ("def initialize(self, context)", "def infer(self, inputs)", "def finalize(self)"),
    "finalize args": ("def initialize(self)", "def infer(self, inputs)", "def finalize(self, args)"),
    "finalize star": ("def initialize(self)", "def infer(self, inputs)", "def finalize(self, *args)"),
    "async infer": ("def initialize(self)", "async def infer(self, inputs)", "def finalize(self)"),
    "all async": ("async def initialize(self)", "async def infer(self, inputs)", "async def finalize(self)"),
    "a hint": ("def initialize(self)", "def infer(self, inputs: dict) -> dict", "def finalize(self)"),
    "a handler": ("def initialize(self)", "def infer(self, inputs, stream_output_handler=None)", "def finalize(self)"),
    "more": ("def initialize(self)", "def infer(self, inputs, **more)", "def finalize(self, **more)"),
    "star": ("def initialize(self, *args)", "def infer(self, inputs, *args)", "def finalize(self, *args)"),
}


@pytest.mark.parametrize("form", FORMS)
def test_i02_all_forms_of_methods_are_called(tmp_path: Path, form: str) -> None:
    log = tmp_path / "log"
    initialize, infer, finalize = FORMS[form]
    body = f"{initialize}: log('start')\n{infer}: return {{'y': inputs['x']}}\n{finalize}: log('end')"
    app = app_class(body).replace("\n\nclass", f"\n{LOG}\nclass")
    with served(write_app(tmp_path, app), env={"LOG": str(log)}) as api:
        assert log.read_text() == "start "
        assert api.data(tensor("x", "BYTES", "hi")) == ["hi"]
    until(lambda: log.read_text() == "start end ", "finalize")


def test_i02_initialize_and_finalize_are_optional(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO)) as app:
        assert app.data(tensor("x", "BYTES", "hi")) == ["hi"]


def test_i02_exception_in_finalize_does_not_fail_the_stop(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO + "\n    def finalize(self): raise ValueError('no')\n")) as app:
        assert app.data() == ["nothing"]


def test_i02_decorated_class_is_loaded(tmp_path: Path) -> None:
    app = """
    import inferless

    app = inferless.Cls(gpu="T4")

    class Shop:
        @app.load
        def load(self):
            self.word = "loaded"

        @app.infer
        def compute(self, inputs):
            return {"y": self.word}
    """
    home = write_app(tmp_path, app)
    assert inferless.detect(home) is not None
    with served(home) as api:
        assert api.data() == ["loaded"]


def test_i02_only_class_with_infer_is_loaded(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO.replace("InferlessPythonModel", "Model"))) as app:
        assert app.data() == ["nothing"]


@pytest.mark.parametrize(
    ("app", "problem"),
    [
        ("class A:\n    pass\n", "has no class InferlessPythonModel, and of other classes with a method infer: none"),
        ("class A:\n    def infer(self, x): ...\nclass B:\n    def infer(self, x): ...\n", "method infer: A, B"),
        ("class InferlessPythonModel:\n    pass\n", "the class InferlessPythonModel has no method infer"),
    ],
)
def test_missing_model_class_is_reported(tmp_path: Path, app: str, problem: str) -> None:
    with pytest.raises(StartupError, match=problem):
        inferless.load(write_app(tmp_path, app), {})


def test_import_error_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LoadError, match=r"cannot import the app in .*: NameError: name 'undefined_thing'"):
        inferless.load(write_app(tmp_path, "undefined_thing\nclass InferlessPythonModel: ...\n"), {})
    assert 'app.py", line 1' in capfd.readouterr().err


def test_missing_input_declarations_are_reported(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"it has neither input_schema\.py with INPUT_SCHEMA, nor a class with"):
        inferless.load(write_app(tmp_path, ECHO, None), {})


def test_i17_async_infer_is_awaited(tmp_path: Path) -> None:
    app = app_class(
        "async def infer(self, inputs):\n    import asyncio\n    await asyncio.sleep(0)\n    return {'y': 1}"
    )
    with served(write_app(tmp_path, app)) as api:
        assert api.data() == [1]


def test_g01_modules_of_equal_names_are_isolated(tmp_path: Path) -> None:
    from penstock.testing import Client

    models = []
    for name in ("one", "two"):
        home = write_app(
            tmp_path / name,
            "import helper, os\n" + app_class("def infer(self, inputs): return {'y': helper.NAME, 'at': os.getcwd()}"),
        )
        (home / "helper.py").write_text(f"NAME = {name!r}\n")
        models += inferless.load(home, {"name": name})
    with Client(*models) as client:
        for name in ("one", "two"):
            outputs = client.post(f"/v2/models/{name}/infer", '{"inputs": []}').json()["outputs"]
            assert outputs[0]["data"] == [name]
            assert outputs[1]["data"] == [str(tmp_path / name / "shop")]


def test_app_has_its_modules_and_working_directory(tmp_path: Path) -> None:
    app = app_class(
        "def infer(self, inputs):\n    from words import WORD\n    return {'y': WORD, 'file': open('data.txt').read()}"
    )
    home = write_app(tmp_path, app, words__py="WORD = 'hello'\n", data__txt="some data")
    with served(home) as api:
        assert {name: one[2] for name, one in api.outputs().items()} == {"y": ["hello"], "file": ["some data"]}


def test_i32_changed_file_reloads_the_app(tmp_path: Path) -> None:
    home = write_app(tmp_path, app_class("def infer(self, inputs): return {'y': 'old'}"))
    with served(home, reload="true") as api:
        assert api.data() == ["old"]
        (home / "app.py").write_text(app_class("def infer(self, inputs): return {'y': 'new one'}"))
        until(lambda: api.data() == ["new one"], "the new app")
        # An app that cannot be loaded leaves the previous one.
        (home / "app.py").write_text("broken =\n")
        import time

        time.sleep(0.4)
        assert api.data() == ["new one"]


def test_invalid_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="unknown option 'colour', expected one of name, api_key, isolation"):
        inferless.load(write_app(tmp_path, ECHO), {"colour": "red"})
    with pytest.raises(StartupError, match="option workers: got 'many', expected an integer"):
        inferless.load(write_app(tmp_path, ECHO), {"workers": "many"})


def test_workers_share_one_app(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {'y': os.getpid()}")
    with served(write_app(tmp_path, app, ANY), workers=2) as api:
        from waiting import at_once

        pids = {one.result()[0] for one in at_once([api.data] * 20)}
        assert 1 <= len(pids) <= 2
