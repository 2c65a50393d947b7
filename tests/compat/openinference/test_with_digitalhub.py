"""Functions created with DigitalHub's SDK, without a platform."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from functions import ECHO

from penstock.compat.openinference import as_function, read_function

TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or Path(__file__).resolve().parents[3] / ".tools").absolute()
PYTHON = TOOLS / "digitalhub" / "bin" / "python"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="DigitalHub's SDK is not installed: python tests/clients/setup_tools.py digitalhub"
)

SCRIPT = """
import json, sys
from digitalhub_runtime_python.entities.function.openinference.builder import FunctionOpeninferenceBuilder

made = FunctionOpeninferenceBuilder().build("openinference", "p", "echo", **json.loads(sys.argv[1]))
print(json.dumps(made.to_dict()))
"""

TENSORS = [{"name": "x", "shape": [-1]}, {"name": "t", "shape": [-1], "datatype": "BYTES"}]


def made(folder: Path, **parameters: Any) -> dict[str, Any]:
    """Returns the function that the SDK creates for parameters of `new_function`."""
    whole = {"handler": "handler", "python_version": "PYTHON3_11", "model_name": "m", "inputs": TENSORS, **parameters}
    command = [str(PYTHON), "-c", SCRIPT, json.dumps(whole)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={"HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    created: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return created


def test_d17_function_of_the_sdk_is_served(tmp_path: Path) -> None:
    entity = made(tmp_path, code=ECHO)
    run = as_function(entity).run("serve", wait=True)
    x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    response = run.invoke(json={"inputs": [x, {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]}]})
    run.stop()
    assert [one["data"] for one in response.json()["outputs"]] == [[1.0], ["a"]]


def test_d01_exports_of_the_sdk_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "infer.py").write_text(ECHO)
    entity = made(tmp_path, code_src="src/infer.py", init_function="init", requirements=["numpy==1.26.4"])
    (tmp_path / "function.json").write_text(json.dumps(entity))
    function = read_function(tmp_path)
    assert (function.source.source, function.source.code) == ("src/infer.py", ECHO.encode())
    assert (function.source.init_function, function.requirements) == ("init", ("numpy==1.26.4",))
    assert [(one.name, one.datatype) for one in function.inputs] == [("x", "FP32"), ("t", "BYTES")]


@pytest.mark.parametrize(
    "source", ["git+https://example.com/a/b#v1", "zip+https://example.com/a.zip", "zip+s3://bucket/a.zip"]
)
def test_d02_sources_of_the_sdk_are_supported(tmp_path: Path, source: str) -> None:
    function = as_function(made(tmp_path, code_src=source, handler="pkg.mod:func")).spec
    assert (function.source.source, function.source.handler) == (source, "pkg.mod:func")
