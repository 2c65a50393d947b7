"""Valid and invalid definitions."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from functions import ECHO, entity, write_function

from penstock.compat.openinference import DefinitionError, FunctionSpec, check, detect, parse_definition, read_function
from penstock.compat.openinference._definition.requirements import requirement_lines
from penstock.errors import StartupError


def test_d01_all_keys_are_read() -> None:
    function = parse_definition(
        entity(
            source={"code": ECHO, "handler": "pkg.mod:func", "init_function": "init", "lang": "python"},
            requirements=["numpy"],
            base_image="python:3.12",
            image="me/it:1",
            outputs=[{"name": "y", "datatype": "BYTES", "shape": [2, -1]}],
        ),
        Path("/folder"),
    )
    assert (function.name, function.project, function.model_name, function.python_version) == ("f", "p", "m", "3.11")
    assert (function.requirements, function.base_image, function.image) == (("numpy",), "python:3.12", "me/it:1")
    assert (function.source.handler, function.source.init_function) == ("pkg.mod:func", "init")
    assert [(one.name, one.datatype, one.shape) for one in function.outputs] == [("y", "BYTES", (2, -1))]
    assert FunctionSpec.from_json(function.as_json()) == function


TENSOR = {"name": "x", "datatype": "FP32", "shape": [1]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"model_name": None}, "spec.model_name: is required"),
        ({"python_version": "3.11"}, "spec.python_version: must be one of PYTHON3_10, PYTHON3_11"),
        ({"python_version": None}, "spec.python_version: is required"),
        ({"inputs": []}, "spec.inputs: must have at least one tensor"),
        ({"inputs": None}, "spec.inputs: must have at least one tensor"),
        ({"inputs": {}}, "spec.inputs: must be a list, not dict"),
        ({"inputs": [TENSOR, TENSOR]}, "spec.inputs: has 'x' twice"),
        ({"inputs": [{**TENSOR, "datatype": "BF16"}]}, "spec.inputs[0].datatype: must be one of BOOL, "),
        ({"inputs": [{**TENSOR, "shape": []}]}, "spec.inputs[0].shape: must be a list with at least one number"),
        (
            {"outputs": [TENSOR, {**TENSOR, "shape": [1, -2]}]},
            "spec.outputs[1].shape[1]: must be a number of 0 or more",
        ),
        ({"inputs": [{**TENSOR, "shape": [True]}]}, "spec.inputs[0].shape[0]: must be a number"),
        (
            {"inputs": [{**TENSOR, "dtype": "FP32"}]},
            "spec.inputs[0].dtype: is not known here, expected one of data_type, ",
        ),
        ({"inputs": ["x"]}, "spec.inputs[0]: must be an object, not str"),
        ({"requirements": ["numpy", 3]}, "spec.requirements[1]: must be a line as of a requirements file, not 3"),
        ({"source": None}, "spec.source: is required"),
        ({"source": "main.py"}, "spec.source: must be an object, not str"),
        ({"source": {"code": ECHO}}, "spec.source.handler: is required"),
        ({"source": {"code": ECHO, "handler": "a:b:c"}}, "spec.source.handler: must be a function's name"),
        ({"source": {"handler": "f"}}, "spec.source: must have source, code or base64"),
        ({"source": {"handler": "f", "base64": "?"}}, "spec.source.base64: must be base64"),
        (
            {"source": {"handler": "f", "code": "", "lang": "java"}},
            "spec.source.lang: must be one of python, not 'java'",
        ),
        ({"source": {"handler": "f", "source": "file:main.py"}}, "spec.source.source: must be a plain path"),
        (
            {"source": {"handler": "f", "code": "", "init_function": "a:b"}},
            "spec.source.init_function: must be the name",
        ),
        ({"model": "m"}, "spec.model: is not known here"),
    ],
)
def test_d01_invalid_definitions_are_reported_with_the_key_path(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_definition(entity(**spec), Path())
    assert any(one.startswith(problem) for one in raised.value.problems), raised.value.problems


def test_d01_all_problems_are_reported_together() -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_definition({**entity(model_name=None, python_version="x"), "kind": "python", "name": None}, Path())
    assert [one.partition(":")[0] for one in raised.value.problems] == [
        *("kind", "name", "spec.model_name", "spec.python_version"),
    ]


def test_d01_code_is_plain_or_base64() -> None:
    encoded = base64.b64encode(ECHO.encode()).decode()
    for source in ({"code": ECHO}, {"base64": encoded}):
        assert parse_definition(entity(source={**source, "handler": "handler"}), Path()).source.code == ECHO.encode()


@pytest.mark.parametrize("name", ["function.yaml", "echo.yml"])
def test_d01_yaml_definitions_are_detected_and_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "main.py").write_text(ECHO)
    (tmp_path / name).write_text(
        "kind: openinference\nname: f\nspec:\n  source: {source: main.py, handler: handler}\n"
        "  python_version: PYTHON3_11\n  model_name: m\n  inputs: [{name: x, shape: [-1]}]\n"
    )
    assert read_function(tmp_path).model_name == "m"
    assert check(tmp_path) == []
    finding = detect(tmp_path)
    assert finding is not None
    assert (finding.integration, finding.why) == ("openinference", f"{name} has kind: openinference")


def test_d01_folder_with_two_functions_is_rejected_as_ambiguous(tmp_path: Path) -> None:
    write_function(tmp_path)
    (tmp_path / "function.json").rename(tmp_path / "a.json")
    write_function(tmp_path)
    assert read_function(tmp_path).name == "f"
    (tmp_path / "function.json").rename(tmp_path / "b.json")
    with pytest.raises(StartupError, match=r"has several functions of Open Inference \(a.json, b.json\)"):
        read_function(tmp_path)


def test_other_folders_are_not_detected(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Deployment\n# kind of openinference\n")
    (tmp_path / "b.json").write_text("\xff")
    assert detect(tmp_path) is None
    assert detect(tmp_path / "a.yaml") is None


def test_d16_requirements_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("-r requirements.txt\nscipy>=1 # of linear algebra\n")
    (tmp_path / "requirements.txt").write_text("# all\nnumpy==1.26\n-r more.txt\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname="a"\ndependencies=["torch>=2"]\n')
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(install_requires=['a', 'b<2'])\nraise 1\n")
    (tmp_path / "conda.yaml").write_text(
        "dependencies:\n- python=3.11\n- numpy=1.26=py_0\n- conda-forge::scipy\n- pip:\n  - x==1\n"
    )
    assert requirement_lines(("a", "b"), tmp_path) == ("a", "b")
    assert requirement_lines("requirements.txt", tmp_path) == ("numpy==1.26", "scipy>=1")
    assert requirement_lines("setup.py", tmp_path) == ("a", "b<2")
    assert requirement_lines("conda.yaml", tmp_path) == ("numpy==1.26", "scipy", "x==1")
    if __import__("sys").version_info >= (3, 11):
        assert requirement_lines("pyproject.toml", tmp_path) == ("torch>=2",)
    with pytest.raises(StartupError, match=r"there is no file other.txt with requirements"):
        requirement_lines("other.txt", tmp_path)


def test_d23_aliases_and_defaults_of_tensors() -> None:
    tensors = [
        *({"name": "a", "data_type": "INT8", "shape": [1]}, {"name": "b", "datatype": "STRING", "shape": [1]}),
        *({"shape": [1]}, {"name": "d", "datatype": "UINT8", "data_type": "INT8", "shape": [1]}),
    ]
    inputs = parse_definition(entity(inputs=tensors), Path()).inputs
    assert [(one.name, one.datatype, one.named) for one in inputs] == [
        *(("a", "INT8", True), ("b", "BYTES", True), ("input-2", "FP32", False), ("d", "UINT8", True)),
    ]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def other(): ...", "spec.source.handler: main.py has no function 'handler'"),
        ("def handler(request, model): ...", "spec.source.handler: 'handler' takes model, without a value"),
        ("def handler(request): ...\ndef init(model): ...", "spec.source.init_function: 'init' must take context"),
        ("def handler(:", "main.py: "),
    ],
)
def test_check_parses_the_code(tmp_path: Path, code: str, problem: str) -> None:
    write_function(tmp_path, code, source={"init_function": "init"})
    assert any(one.startswith(problem) for one in check(tmp_path)), check(tmp_path)


def test_check_reports_other_problems(tmp_path: Path) -> None:
    write_function(tmp_path, ECHO, settings={"validate": "maybe"}, requirements="none.txt")
    assert check(tmp_path) == [
        "penstock: option validate is 'maybe', expected one of on, off",
        "spec.requirements: there is no file none.txt with requirements",
    ]
    write_function(tmp_path, ECHO, model_name=None)
    assert check(tmp_path) == ["spec.model_name: is required"]
