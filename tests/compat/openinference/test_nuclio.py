"""nuclio functions."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from functions import serving

from penstock import integrations
from penstock.compat.openinference import DefinitionError, read_function

CODE = """
import os

def init_context(context):
    context.user_data.unit = os.environ["UNIT"]

def handler(context, event):
    sizes = [len(text) for text in event.body["inputs"][0]["data"]]
    size = {"name": "size", "datatype": "INT64", "shape": [len(sizes)], "data": sizes}
    unit = {"name": "unit", "datatype": "BYTES", "shape": [1], "data": [context.user_data.unit + event.trigger.kind]}
    return context.Response(body={"outputs": [size, unit]}, status_code=200)
"""


def function(**spec: Any) -> dict[str, Any]:
    attributes = {"model_name": "sizes", "model_version": "7", "rest_port": 8080, "enable_grpc": True}
    attributes["input_tensors"] = [{"name": "text", "data_type": "BYTES", "shape": [-1]}]
    return {
        "apiVersion": "nuclio.io/v1",
        "kind": "NuclioFunction",
        "metadata": {"name": "sizes-of", "labels": {"nuclio.io/project-name": "p"}},
        "spec": {
            "runtime": "python:3.11",
            "handler": "parts.sizes:handler",
            "env": [{"name": "UNIT", "value": "in "}],
            "triggers": {"open": {"kind": "openinference", "maxWorkers": 2, "attributes": attributes}},
            **spec,
        },
    }


def test_d26_nuclio_function_is_served(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "sizes.py").write_text(CODE)
    (tmp_path / "function.yaml").write_text(yaml.safe_dump(function()))
    assert [one.integration for one in integrations.detect(tmp_path)] == ["openinference"]
    with serving(tmp_path) as served:
        status, response = served.infer(
            {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a", "bcd"]}, model="sizes"
        )
        assert (status, response["model_version"]) == (200, "7")
        assert [one["data"] for one in response["outputs"]] == [[1, 3], ["in openinference"]]
        config = served.get("/v2/models/sizes/config")[1]
        assert config["instance_group"][0]["count"] == 2


def test_d26_code_and_packages_are_read_from_the_definition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build = {
        "functionSourceCode": base64.b64encode(b"def handler(context, event): ...").decode(),
        "commands": ["pip install one==1 'two<3'", "apt-get update"],
        "baseImage": "python:3.11",
    }
    (tmp_path / "function.json").write_text(json.dumps(function(build=build, handler="sizes:handler")))
    spec = read_function(tmp_path)
    assert (spec.name, spec.project, spec.model_name) == ("sizes-of", "p", "sizes")
    assert (spec.source.handler, spec.source.source) == ("sizes:handler", "sizes.py")
    assert (spec.requirements, spec.base_image) == (("one==1", "two<3"), "python:3.11")
    assert "a command of the function's build is ignored: apt-get update" in caplog.text


def test_d26_missing_fields_are_reported(tmp_path: Path) -> None:
    (tmp_path / "function.json").write_text(
        json.dumps(function(runtime="golang", triggers={"a": {"kind": "openinference"}}))
    )
    with pytest.raises(
        DefinitionError, match=r"spec.inputs: must have .*; spec.python_version: must be one of .* not 'golang'"
    ):
        read_function(tmp_path)
