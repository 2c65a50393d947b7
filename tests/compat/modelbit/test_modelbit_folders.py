"""M-17: exported deployment folders, with pickles, helpers and `import modelbit`."""

from __future__ import annotations

import os
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from modelbit_http import HttpClient
from modelbit_repository import Files, write_deployment, write_repository

from penstock import LoadError, Server, StartupError
from penstock.compat import modelbit

SOURCE = """
import modelbit, sys
import helper
from shared import SHARED

weights = modelbit.load_value("data/weights.pkl")

with modelbit.setup("once"):
    LOADED = modelbit.load_value("data/more.pkl")

def predict(what):
    if what == "weights":
        return [weights, LOADED, helper.name(), SHARED]
    if what == "info":
        return [modelbit.get_deployment_info(), modelbit.in_modelbit(), modelbit.get_branch()]
    if what == "secret":
        missing = modelbit.get_secret("NO", ignore_missing=True)
        return [modelbit.get_secret("TOKEN"), modelbit.get_secret("FROM_ENV"), missing]
    if what == "no secret":
        return modelbit.get_secret("NO")
    if what == "model":
        return [modelbit.get_model("scores"), modelbit.get_models(prefix="sc")]
    if what == "outside":
        return modelbit.load_value("../../../etc/passwd.pkl")
    if what == "parse":
        return [modelbit.parseArg("[1]"), modelbit.parseArg("a b"), modelbit.login() is modelbit]
    if what == "trace":
        with modelbit.trace("step"):
            return modelbit.__name__
    if what == "save":
        modelbit.save_value({"a": 1}, "made/value.pkl")
        return modelbit.load_value("made/value.pkl")

# to run locally via git & terminal
if __name__ == "__main__":
    print(predict(*(modelbit.parseArg(v) for v in sys.argv[1:])))
"""
DEPLOYMENTS = {
    "predict": Files(
        SOURCE,
        "predict",
        {"runtimeInfo": {"mainFunctionArgs": ["what:str", "return:Any"]}, "tags": ["a"]},
        {
            "data/weights.pkl": pickle.dumps([1, 2, 3]),
            "data/more.pkl": pickle.dumps({"a": 1}),
            "helper.py": "def name():\n    return 'helper'\n",
            "requirements.txt": "numpy\n",
        },
    )
}
FILES = {"common/shared.py": "SHARED = 'shared'\n", "secrets.yaml": "TOKEN: s3cret\n"}


@pytest.fixture(scope="module", autouse=True)
def variable() -> None:
    os.environ["FROM_ENV"] = "from the environment"


def test_m17_pickles_helpers_and_common_files(served: HttpClient) -> None:
    assert served.call("predict", "weights").data == [[1, 2, 3], {"a": 1}, "helper", "shared"]


def test_m17_secrets_are_read_from_files_and_environment(served: HttpClient) -> None:
    assert served.call("predict", "secret").data == ["s3cret", "from the environment", ""]
    assert served.call("predict", "no secret").error.startswith("UserFacingError: there is no secret 'NO'")


def test_m17_modelbit_module_of_a_worker(served: HttpClient) -> None:
    assert served.call("predict", "parse").data == [[1], "a b", True]
    assert served.call("predict", "trace").data in ("penstock.compat.modelbit", "modelbit")
    assert served.call("predict", "save").data == {"a": 1}


def test_m17_pickles_outside_the_folder_are_rejected(served: HttpClient) -> None:
    error = served.call("predict", "outside").error
    assert error == "UserFacingError: '../../../etc/passwd.pkl' lies outside of the deployment's folder"


def test_m17_models_are_read_from_the_registry(served: HttpClient) -> None:
    home = served.folder / "registry"
    home.mkdir()
    (home / "scores.pkl").write_bytes(pickle.dumps(7))
    assert served.call("predict", "model").data == [7, {"scores": 7}]


def test_m27_deployment_info_names_branch_and_version(served: HttpClient) -> None:
    info = {"branch": "main", "name": "predict", "version": "1"}
    assert served.call("predict", "info").data == [info, True, "main"]


def test_m17_single_deployment_is_served(served: HttpClient) -> None:
    folder = served.folder / "deployments" / "predict"
    with Server(*modelbit.load(folder, {}), http="127.0.0.1:0", grpc=None) as server:
        assert HttpClient(server.http_url, folder).call("predict", "weights").data[3] == "shared"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (Files("def f(x):\n    return x\n", "g"), "has no function 'g'"),
        (Files("import not_there\ndef f(x):\n    return x\n", "f"), "No module named 'not_there'"),
    ],
)
def test_m17_load_errors_are_reported(tmp_path: Path, written: Files, message: str) -> None:
    folder = write_repository(tmp_path, {"f": written})
    with pytest.raises(LoadError) as raised:
        Server(*modelbit.load(folder, {}), http="127.0.0.1:0", grpc=None).start()
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"runtimeInfo": {"mainFunctionArgs": ["y:int"]}}, "mainFunctionArgs has y, but f takes x"),
        ({"runtimeInfo": {"mainFunctionArgs": "x"}}, "mainFunctionArgs is 'x', expected a list of texts"),
        ({"dataframeModeColumns": []}, "dataframeModeColumns is [], expected a list of columns"),
    ],
)
def test_m17_invalid_metadata_is_rejected(tmp_path: Path, metadata: dict[str, object], message: str) -> None:
    folder = write_repository(tmp_path, {"f": Files("def f(x):\n    return x\n", "f", metadata)})
    with pytest.raises(StartupError) as raised:
        modelbit.load(folder, {})
    assert message in str(raised.value)


def test_m17_invalid_options_are_rejected(tmp_path: Path) -> None:
    folder = write_repository(tmp_path, {"f": Files("def f(x):\n    return x\n", "f")})
    for options, message in (
        ({"speed": "1"}, "unknown option 'speed', expected one of isolation, workers"),
        ({"workers": "many"}, "option workers: got 'many', expected an integer"),
        ({"workers": 0}, "option workers: got 0, expected 1 or more"),
        ({"require_key": "perhaps"}, "option require_key: got 'perhaps', expected on or off"),
        ({"nan": "no"}, "option nan: got 'no', expected null or error"),
    ):
        with pytest.raises(StartupError) as raised:
            modelbit.load(folder, options)
        assert str(raised.value).startswith(message)


def test_g06_repositories_folders_and_scripts_are_detected(tmp_path: Path) -> None:
    folder = write_repository(tmp_path / "repository", {"f": Files("def f(x):\n    return x\n", "f")})
    finding = modelbit.detect(folder)
    assert finding is not None
    assert (finding.integration, finding.why) == ("modelbit", "it has deployments/ with f")
    finding = modelbit.detect(folder / "deployments" / "f")
    assert finding is not None
    assert finding.why == "it has source.py, and metadata.yaml with a mainFunction"
    script = tmp_path / "script.py"
    script.write_text("import modelbit\n\nmodelbit.deploy(print)\n")
    finding = modelbit.detect(script)
    assert finding is not None
    assert finding.why == "it imports modelbit and calls its deploy"
    (tmp_path / "other.py").write_text("import modelbit_like\n")
    assert modelbit.detect(tmp_path / "other.py") is None
    assert modelbit.detect(tmp_path) is None


def test_m17_check_reports_problems_and_describe_the_image(tmp_path: Path) -> None:
    metadata = {
        "runtimeInfo": {"pythonVersion": "3.11", "systemPackages": ["libgomp1", "ffmpeg"]},
        "dataframeModeColumns": [{"name": "a", "dtype": "int64"}],
    }
    root = write_repository(
        tmp_path,
        {"f": Files("def f(x):\n    return x\n", "f", metadata, {"requirements.txt": "a==1\n# no\n"})},
    )
    assert modelbit.check(root) == []
    (root / "endpoints").mkdir()
    (root / "endpoints" / "e.yaml").write_text("backends: {a: {deployment: {name: unknown}}}\n")
    write_deployment(
        root / "deployments" / "g", Files("raise ValueError('no')\n", "g", {}, {"data/m.pkl": "_file: x\n"})
    )
    problems = modelbit.check(root)
    assert problems[0].endswith("m.pkl is a placeholder of a missing file: clone the repository with its files")
    assert problems[1:] == [
        "deployment g, version 1: ValueError: no",
        "endpoint e, a: there is no deployment 'unknown'",
    ]
    spec = modelbit.describe(root)
    assert spec.python_version == "3.11"
    assert spec.system_packages == ("ffmpeg", "libgomp1")
    assert spec.requirements == ("cloudpickle>=3", "PyYAML>=6", "a==1", "pandas")
    assert spec.serve == (root.name,)
    (root / "secrets.yaml").write_text("TOKEN: s3cret\n")
    (root / "common").mkdir()
    targets = {target for _, target in modelbit.describe(root).files}
    assert targets == {f"{root.name}/{name}" for name in ("deployments", "endpoints", "common")}, "and no secrets"
    alone = modelbit.describe(root / "deployments" / "f")
    assert alone.serve == ("deployments/f",)
    assert (root / "common", "common") in alone.files


def test_m17_scaffolded_example_is_served(tmp_path: Path) -> None:
    written = modelbit.scaffold(tmp_path)
    assert {one.name for one in written} == {"source.py", "metadata.yaml", "requirements.txt"}
    with Server(*modelbit.load(tmp_path, {}), http="127.0.0.1:0", grpc=None) as server:
        assert HttpClient(server.http_url, tmp_path).call("doubler", [[1, 10]]).data == [[1, 20]]
    assert "modelbit" not in sys.modules, "only workers import the module"


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_g03_running_request_finishes_on_stop(tmp_path: Path, isolation: str) -> None:
    source = "import time\ndef slow(x):\n    time.sleep(0.6)\n    return x\n"
    folder = write_repository(tmp_path, {"slow": Files(source, "slow")})
    server = Server(*modelbit.load(folder, {"isolation": isolation}), http="127.0.0.1:0", grpc=None).start()
    client = HttpClient(server.http_url, folder)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(client.call, "slow", 5)
        time.sleep(0.2)
        assert server.stop() == []
        assert running.result().data == 5
