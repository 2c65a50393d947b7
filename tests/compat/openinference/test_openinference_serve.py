"""Integration with `penstock serve PATH` and the other commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from functions import ECHO, serving, write_function

from penstock import Server, integrations
from penstock.compat import openinference
from penstock.errors import StartupError


def test_scaffolded_example_is_detected_checked_and_served(tmp_path: Path) -> None:
    assert {one.name for one in openinference.scaffold(tmp_path)} == {"function.json", "main.py"}
    assert [one.integration for one in integrations.detect(tmp_path)] == ["openinference"]
    assert openinference.check(tmp_path) == []
    with serving(tmp_path) as served:
        body = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["two words"]}
        assert served.infer(body, model="text-length")[1]["outputs"][0]["data"] == [2]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"valid": "on"}, "unknown option 'valid', expected one of bytes_mode, "),
        ({"validate": "no"}, "option validate is 'no', expected one of on, off"),
        ({"replicas": "0"}, "option replicas is '0', expected a number of 1 or more"),
        ({"init_parameters": "{"}, "option init_parameters is not JSON"),
        ({"init_parameters": "3"}, "option init_parameters is 3, expected an object"),
    ],
)
def test_invalid_options(tmp_path: Path, options: dict[str, str], error: str) -> None:
    with pytest.raises(StartupError, match=error):
        openinference.load(write_function(tmp_path, ECHO), options)


def test_options_of_the_command_line_take_precedence(tmp_path: Path) -> None:
    write_function(tmp_path, ECHO, settings={"validate": False, "version": 3})
    with serving(tmp_path, version="4") as served:
        assert served.infer({"name": "z", "datatype": "INT8", "shape": [1], "data": [1]})[1]["model_version"] == "4"


def test_g01_functions_of_one_server_are_isolated(tmp_path: Path) -> None:
    models = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"import os\nos.environ['APP'] = NAME = {name!r}\n")
        code = "import helper, os\ndef handler(request):\n    "
        code += "return {'outputs': [{'name': 'y', 'data': [helper.NAME + os.environ['APP']]}]}\n"
        models += openinference.load(write_function(tmp_path / name, code, model_name=name), {})
    from functions import Served

    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        served = Served(server)
        tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
        for name in ("a", "b"):
            assert served.infer(tensor, model=name)[1]["outputs"][0]["data"] == [name * 2]


def test_g02_errors_are_json(tmp_path: Path) -> None:
    with serving(write_function(tmp_path, ECHO)) as served:
        for path, body in (("/v2/models/m/infer", [1]), ("/v2/models/m/infer", {}), ("/none", None), ("/v2/none", {})):
            status, response = served.get(path, body)
            assert status >= 400
            assert isinstance(response["error"], str)
