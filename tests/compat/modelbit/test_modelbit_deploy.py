"""M-06 and M-22: functions deployed from a script, repeatedly."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from modelbit_http import HttpClient
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit

WEIGHTS = np.array([1.0, 2.0])


def _score(x: float) -> float:
    return float(WEIGHTS.sum() * x)


def test_m06_redeployment_adds_a_version_and_moves_latest(workspace: modelbit.Workspace) -> None:
    client = HttpClient(workspace.url, workspace.folder)
    first = workspace.deploy(lambda x: ["first", x], name="f")
    assert (first.version, first.url) == (1, f"{workspace.url}/v1/f/main/1")
    assert client.call("f", 1).data == ["first", 1]
    second = workspace.deploy(lambda x: ["second", x], name="f")
    assert second.version == 2
    assert client.call("f", 1).data == ["second", 1]
    assert client.call("/v1/f/1", 1).data == ["first", 1]
    workspace.alias("f", "official", 1)
    assert client.call("/v1/f/official", 1).data == ["first", 1]
    workspace.alias("f", "official", 2)
    assert client.call("/v1/f/official", 1).data == ["second", 1]


def test_m22_globals_helpers_and_files_are_deployed(workspace: modelbit.Workspace, tmp_path: Path) -> None:
    bias = 10

    def predict(x: float) -> float:
        return _score(x) + bias

    (tmp_path / "extra.txt").write_text("extra")
    deployed = workspace.deploy(
        predict,
        python_packages=["numpy==2.0.0"],
        system_packages=["ffmpeg"],
        files=({str(tmp_path / "extra.txt"): "files/extra.txt"},),
    )
    client = HttpClient(workspace.url, workspace.folder)
    assert client.call("predict", [[1, 1.0], [2, 2.0]]).data == [[1, 13.0], [2, 16.0]]
    assert (deployed.folder / "requirements.txt").read_text() == "numpy==2.0.0\n"
    assert (deployed.folder / "files" / "extra.txt").read_text() == "extra"
    assert 'mainFunctionArgs: ["x:float", "return:float"]' in (deployed.folder / "metadata.yaml").read_text()
    with Server(*modelbit.load(workspace.folder, {}), http="127.0.0.1:0", grpc=None) as server:
        assert HttpClient(server.http_url, workspace.folder).call("predict", 1.0).data == 13.0, (
            "the folder is served alone"
        )


def test_m22_dataframe_and_async_functions_are_deployed(workspace: modelbit.Workspace) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    workspace.deploy(lambda df: df["a"] * 2, name="twice", dataframe_mode=True, example_dataframe=frame)

    async def increment(x: int) -> int:
        return x + 1

    workspace.deploy(increment)
    response = modelbit.get_inference("twice", frame, base_url=workspace.url)
    assert response == {"data": [[0, 2], [1, 4]]}
    assert modelbit.get_inference("increment", 1, base_url=workspace.url) == {"data": 2}


def test_m22_functions_are_deployed_to_the_current_branch(workspace: modelbit.Workspace) -> None:
    workspace.deploy(lambda x: "main", name="f")
    modelbit.switch_branch("feature/x")
    try:
        workspace.deploy(lambda x: "branch", name="f")
        assert modelbit.get_inference("f", 1, base_url=workspace.url) == {"data": "branch"}
    finally:
        modelbit.switch_branch("main")
    assert modelbit.get_inference("f", 1, base_url=workspace.url) == {"data": "main"}


def test_m22_undeployable_functions_are_rejected(workspace: modelbit.Workspace) -> None:
    for function, options, message in (
        (3, {}, "deploy takes a function or another callable, not int"),
        (lambda x: x, {}, "'<lambda>' is not a valid name"),
        (_score, {"dataframe_mode": True}, "dataframe_mode and example_dataframe go together"),
        (_score, {"python_packages": ["numpy"]}, "python_packages has 'numpy', expected an exact version"),
        (_score, {"files": (["/no/such/file"],)}, "there is no file '/no/such/file' to deploy"),
        (_score, {"files": ({"a": "../../b"},)}, "the file '../../b' would lie outside of the deployment's folder"),
        (_score, {"name": "a-b"}, "a deployment's name has letters, digits and underscores, not 'a-b'"),
    ):
        with pytest.raises(Exception, match=r".") as raised:
            workspace.deploy(function, **options)  # type: ignore[arg-type]
        assert str(raised.value).startswith(message)
    lock = threading.Lock()
    with pytest.raises(modelbit.UserFacingError, match="uses what cannot be deployed"):
        workspace.deploy(lambda x: lock.locked(), name="locks")
    assert not [*workspace.folder.rglob("source.py")]


SCRIPT = """
import modelbit

mb = modelbit.login()
FACTOR = 3

def times(x):
    return x * FACTOR

mb.deploy(times)
"""


def test_m22_deploying_script_is_served(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with Server(*modelbit.load(script, {}), http="127.0.0.1:0", grpc=None) as server:
        assert HttpClient(server.http_url, tmp_path).call("times", 2).data == 6


def test_m22_script_deploys_and_calls_under_the_shim(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    calls = "from modelbit import workspace\nurl = workspace.current().workspace.url\n"
    calls += "print(mb.get_inference('times', [[1, 2]], base_url=url))\n"
    served = "from penstock.compat.modelbit.workspace import Workspace, use\nuse(Workspace(address='127.0.0.1:0'))\n"
    script.write_text(served + SCRIPT + calls)
    command = [sys.executable, "-m", "penstock", "shim", "modelbit", "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "{'data': [[1, 6]]}"


def test_g01_crash_does_not_affect_other_deployments(tmp_path: Path) -> None:
    folder = write_repository(
        tmp_path,
        {
            "dies": Files("import os\ndef dies(x):\n    os._exit(1)\n", "dies"),
            "lives": Files("def lives(x):\n    return x\n", "lives"),
        },
    )
    with Server(*modelbit.load(folder, {}), http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, folder)
        assert client.call("dies", 1).status == 400
        assert client.call("lives", 1).data == 1
