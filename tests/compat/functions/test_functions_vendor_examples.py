"""First examples of the vendors, with their values, through each integration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import integrations, testing

PROMPT = "There is a fine house in the forest"
SCHEMA = {
    "prompt": {"datatype": "STRING", "required": True, "shape": [1], "example": [PROMPT]},
    "shape": {"datatype": "INT8", "required": False, "example": [512, 1], "shape": [2]},
}
APP = """
import json

class InferlessPythonModel:
    def initialize(self):
        self.scores = {"label_1": 0.398, "label_2": 0.563, "label_3": 0.434}

    def infer(self, inputs):
        kinds = json.dumps([type(one).__name__ for one in inputs.values()])
        return {**self.scores, "prompt": inputs["prompt"], "shape": inputs.get("shape", "none"), "kinds": kinds}

    def finalize(self):
        self.scores = None
"""


def inferless_app(folder: Path, schema: Any, code: str) -> testing.Client:
    (folder / "app.py").write_text(code)
    (folder / "input_schema.py").write_text(f"INPUT_SCHEMA = {schema!r}\n")
    return testing.Client(*integrations.load(folder, {"name": "seed"}))


def outputs(client: testing.Client, *inputs: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/v2/models/seed/infer", json.dumps({"inputs": inputs}))
    assert response.status == 200, response.body
    return {one["name"]: (one["datatype"], one["shape"], one["data"]) for one in response.json()["outputs"]}


def bytes_tensor(name: str, *texts: str) -> dict[str, Any]:
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}


def test_inferless_schema_and_app(tmp_path: Path) -> None:
    with inferless_app(tmp_path, SCHEMA, APP) as client:
        # The declared datatype, although 512 is outside INT8; and the datatype that the vendor's client sends.
        for datatype in ("INT8", "INT64"):
            shape = {"name": "shape", "shape": [2], "datatype": datatype, "data": [512, 1]}
            results = outputs(client, bytes_tensor("prompt", PROMPT), shape)
            assert results["shape"] == ("INT64", [2], [512, 1])
        assert results["prompt"] == ("BYTES", [1], [PROMPT])
        assert results["kinds"][2] == ['["str", "list"]']
        scores = {name: results[name] for name in ("label_1", "label_2", "label_3")}
        assert scores == {name: ("FP64", [1], [value]) for name, value in
                          {"label_1": 0.398, "label_2": 0.563, "label_3": 0.434}.items()}  # fmt: skip
        assert outputs(client, bytes_tensor("prompt", PROMPT))["shape"][2] == ["none"], "it is not required"


def test_inferless_inputs_have_any_length(tmp_path: Path) -> None:
    texts = ["value1", "value2", "value3"]
    schema = {"variable_input": {"datatype": "STRING", "required": True, "shape": [-1], "example": texts}}
    code = "class InferlessPythonModel:\n    def infer(self, inputs): return {'again': inputs['variable_input']}\n"
    with inferless_app(tmp_path, schema, code) as client:
        assert outputs(client, bytes_tensor("variable_input", *texts))["again"] == ("BYTES", [3], texts)


MODELBIT = [
    ("example_doubler", "def example_doubler(foo: int):\n    return 2 * foo\n",
     [[1, 10], [2, 11], [3, 12]], [[1, 20], [2, 22], [3, 24]]),
    ("with_dictionary", "def with_dictionary(d):\n    return d['my_key'] + 1\n",
     [[1, {"my_key": 25}], [2, {"my_key": 30}]], [[1, 26], [2, 31]]),
    ("with_arguments", "def with_arguments(a: int, b: str, c: float):\n    return f'{a} {b} {c}'\n",
     [[1, 1, "two", 3.0], [2, 4, "five", 6.0]], [[1, "1 two 3.0"], [2, "4 five 6.0"]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "data", "expected"), MODELBIT)
def test_modelbit_batches(tmp_path: Path, name: str, code: str, data: Any, expected: Any) -> None:
    pytest.importorskip("yaml")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "source.py").write_text(code)
    (folder / "metadata.yaml").write_text(f"owner: me\nruntimeInfo:\n  mainFunction: {name}\nschemaVersion: 2\n")
    with testing.Client(*integrations.load(folder)) as client:
        response = client.post(f"/v1/{name}/latest", json.dumps({"data": data}))
        assert (response.status, response.json()) == (200, {"data": expected})
        # The same values as a single call.
        single = client.post(
            f"/v1/{name}/latest", json.dumps({"data": data[0][1] if len(data[0]) == 2 else data[0][1:]})
        )
        assert single.json() == {"data": expected[0][1]}


PREDICT = """
def predict(request):
    scores = [float(len(text)) for text in request.inputs[0].data]
    return {"outputs": [{"name": "output-0", "datatype": "FP32", "shape": [len(scores)], "data": scores}]}
"""


def test_digitalhub_function_with_tensors(tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text(PREDICT)
    spec = {
        "source": {"source": "inference.py", "handler": "predict"},
        "python_version": "PYTHON3_10",
        "model_name": "text-classifier",
        "inputs": [{"name": "input-0", "shape": [-1], "datatype": "BYTES"}],
        "outputs": [{"name": "output-0", "shape": [-1], "datatype": "FP32"}],
    }
    entity = {"kind": "openinference", "project": "demo", "name": "text-inference", "spec": spec}
    (tmp_path / "function.json").write_text(json.dumps(entity))
    with testing.Client(*integrations.load(tmp_path)) as client:
        body = {"inputs": [bytes_tensor("input-0", "hello world")]}
        response = client.post("/v2/models/text-classifier/infer", json.dumps(body)).json()
        assert (response["model_name"], response["model_version"]) == ("text-classifier", "1")
        assert response["outputs"] == [{"name": "output-0", "datatype": "FP32", "shape": [1], "data": [11.0]}]
        metadata = client.get("/v2/models/text-classifier").json()
        assert metadata["inputs"] == [{"name": "input-0", "datatype": "BYTES", "shape": [-1]}]
        assert metadata["outputs"] == [{"name": "output-0", "datatype": "FP32", "shape": [-1]}]


CAPTION = """
def func(project, run, context, event, request):
    run.log_metric("my-metric", -14.6)
    caption = f"{len(bytes(request.inputs[0].data))} bytes"
    return {"outputs": [{"name": "caption", "datatype": "BYTES", "data": [caption], "shape": [1, len(caption)]}]}
"""


def test_digitalhub_handler_with_all_arguments(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(CAPTION)
    spec = {
        "source": {"source": "main.py", "handler": "func"},
        "python_version": "PYTHON3_10",
        "model_name": "vqa_blip",
        "inputs": [{"name": "image", "datatype": "UINT8", "shape": [-1, -1]}],
        "outputs": [{"name": "caption", "datatype": "BYTES", "shape": [-1, -1]}],
    }
    entity = {"kind": "openinference", "project": "demo", "name": "vqa-oi", "spec": spec}
    (tmp_path / "function.json").write_text(json.dumps(entity))
    with testing.Client(*integrations.load(tmp_path)) as client:
        image = {"name": "image", "datatype": "UINT8", "shape": [1, 4], "data": [1, 2, 3, 255]}
        response = client.post("/v2/models/vqa_blip/infer", json.dumps({"inputs": [image]}))
        assert response.status == 200, response.body
        assert response.json()["outputs"][0]["data"] == ["4 bytes"]
