"""Inputs declared by pydantic classes, and by samples: I-12 to I-14, I-28."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inferless_apps import AppClient, app_class, served, tensor, write_app

from penstock import StartupError
from penstock.compat import inferless

PYDANTIC = """
from typing import List, Optional
import inferless
from pydantic import BaseModel, Field

@inferless.request
class Request(BaseModel):
    word: str = Field(default="ab")
    times: Optional[int] = 2
    scale: float
    flag: Optional[bool] = None
    parts: List[str] = []

@inferless.response
class Response(BaseModel):
    text: str = "none"
    scores: List[float] = [0.5]
    extra: Optional[str] = None

class InferlessPythonModel:
    def initialize(self):
        pass

    def infer(self, request: Request) -> Response:
        assert type(request) is Request
        response = Response()
        response.text = f"{request.word}|{request.times}|{request.scale}|{request.flag}|{request.parts}"
        return response
"""


def outputs_of(api: AppClient, *tensors: dict[str, Any]) -> Any:
    return api.outputs(*tensors)


def test_i12_classes_with_penstocks_package(tmp_path: Path) -> None:
    with served(write_app(tmp_path, PYDANTIC, None)) as api:
        outputs = outputs_of(api, tensor("scale", "FP32", 0.5), tensor("times", "INT64", 3))
        assert outputs == {"text": ("BYTES", [1], ["ab|3|0.5|None|[]"]), "scores": ("FP64", [1], [0.5])}
        outputs = outputs_of(
            api, tensor("scale", "FP64", 2.0), tensor("parts", "BYTES", ["a", "b"]), tensor("flag", "INT32", 1)
        )
        assert outputs["text"][2] == ["ab|2|2.0|True|['a', 'b']"]
        assert api.error_of() == (400, "input 'scale' is missing, expected FP64 of shape [1]")
        metadata = api.client.get("/v2/models/shop").json()
    assert metadata["inputs"] == [
        {"name": "word", "datatype": "BYTES", "shape": [1], "optional": True},
        {"name": "times", "datatype": "INT32", "shape": [1], "optional": True},
        {"name": "scale", "datatype": "FP64", "shape": [1]},
        {"name": "flag", "datatype": "BOOL", "shape": [1], "optional": True},
        {"name": "parts", "datatype": "BYTES", "shape": [-1], "optional": True},
    ]


REPOSITORY = Path(__file__).resolve().parents[3]
VENDOR_PYTHON = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools") / "inferless" / "bin" / "python"


@pytest.fixture
def vendor_python() -> Path:
    if not VENDOR_PYTHON.exists():
        pytest.skip("inferless is not installed; python tests/clients/setup_tools.py inferless fetches it")
    return VENDOR_PYTHON


def test_i12_classes_with_the_vendors_package(tmp_path: Path, vendor_python: Path) -> None:
    (packages,) = vendor_python.parents[1].glob("lib/python*/site-packages")
    # Installed packages take precedence over Penstock's.
    app = f"import sys\nsys.path.append({str(packages)!r})\n" + PYDANTIC.replace(
        'response.text = f"', 'response.text = f"{inferless.__file__}|'
    )
    with served(write_app(tmp_path, app, None)) as api:
        outputs = outputs_of(api, tensor("scale", "FP32", 0.5), tensor("times", "INT64", 3))
        assert outputs["text"][2] == [f"{packages}/inferless/__init__.py|ab|3|0.5|None|[]"]


def test_i12_folder_named_inferless_is_not_the_package(tmp_path: Path) -> None:
    home = write_app(tmp_path, PYDANTIC, None)
    (home / "inferless").mkdir()
    with served(home) as api:
        assert api.outputs(tensor("scale", "FP32", 0.5))["text"][2] == ["ab|2|0.5|None|[]"]


def test_i12_decorators_equal_the_vendors(tmp_path: Path, vendor_python: Path) -> None:
    (tmp_path / "app.py").write_text(PYDANTIC)
    script = "import json, app; print(json.dumps([app.Request._json_schema, app.Response._json_schema]))"
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str, **more: str) -> Any:
        done = subprocess.run(
            [*command, "-c", script], cwd=tmp_path, env={**known, **more}, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    theirs = run(str(vendor_python), "-W", "ignore")
    path = os.pathsep.join(one for one in sys.path if one)
    ours = run(sys.executable, "-m", "penstock", "shim", "inferless", "--", sys.executable, PYTHONPATH=path)
    for one in (theirs, ours):
        # Penstock treats fields with a default as optional.
        for field in (one[0]["word"], one[0]["parts"], one[1]["text"], one[1]["scores"]):
            field.pop("required")
    assert ours == theirs


NEW = """
from typing import List, Optional
import inferless
from pydantic import BaseModel

@inferless.request
class Request(BaseModel):
    texts: Optional[List[str]] = None
    numbers: list[int] = [1]
    word: str | None = None

@inferless.response
class Response(BaseModel):
    text: str = ""

class InferlessPythonModel:
    def infer(self, inputs: Request) -> Response:
        return Response(text=f"{inputs.texts}|{inputs.numbers}|{inputs.word}")
"""


def test_i13_optional_lists_and_union_types(tmp_path: Path) -> None:
    with served(write_app(tmp_path, NEW, None)) as api:
        assert api.data() == ["None|[1]|None"]
        data = api.data(
            tensor("texts", "BYTES", ["a", "b"]), tensor("numbers", "INT64", [3, 4]), tensor("word", "BYTES", "w")
        )
        assert data == ["['a', 'b']|[3, 4]|w"]
        shapes = {one["name"]: one["shape"] for one in api.client.get("/v2/models/shop").json()["inputs"]}
        assert shapes == {"texts": [-1], "numbers": [-1], "word": [1]}


def test_i13_unsupported_field_types_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        StartupError, match=r"Request.numbers is a dict, expected str, int, float, bool, or a list of one"
    ):
        inferless.load(write_app(tmp_path, NEW.replace("list[int] = [1]", "dict = {}"), None), {})


def test_i12_validation_errors_are_400(tmp_path: Path) -> None:
    app = NEW.replace("from pydantic import BaseModel", "from pydantic import BaseModel, Field").replace(
        "word: str | None = None", "word: str | None = Field(default=None, max_length=2)"
    )
    with served(write_app(tmp_path, app, None)) as api:
        assert api.error_of(tensor("word", "BYTES", "long")) == (
            400,
            "input 'word': String should have at most 2 characters",
        )


def test_i12_values_override_the_declared_output_type(tmp_path: Path) -> None:
    app = PYDANTIC.replace("return response", 'response.scores = [["a"], ["b"]]\n        return response')
    with served(write_app(tmp_path, app, None)) as api:
        assert outputs_of(api, tensor("scale", "FP32", 0.5))["scores"] == ("BYTES", [2, 1], ["a", "b"])


def test_i12_batches_are_lists_of_objects(tmp_path: Path) -> None:
    app = (
        NEW.replace(
            "return Response(text=",
            "return [Response(text=f'{len(inputs)}') for one in inputs]\n        return Response(text=",
        )
        + "\n@inferless.config()\nclass Config(BaseModel):\n    batch_size: int = 2\n    batch_window: int = 1\n"
    )
    with served(write_app(tmp_path, app, None)) as api:
        assert api.data() == ["1"]


INPUT_JSON = (
    '{"inputs": [{"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["hi"]},'
    ' {"name": "n", "shape": [-1], "datatype": "INT32", "data": [1, 2]}]}'
)
OUTPUT_JSON = '{"outputs": [{"name": "text", "shape": [-1], "datatype": "FP64", "data": ["ignored"]}]}'


def test_i28_json_samples_declare_the_schema(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {'text': [inputs['prompt']]} if inputs['n'] else {'other': 1}")
    home = write_app(tmp_path, app, None, input__json=INPUT_JSON, output__json=OUTPUT_JSON)
    with served(home) as api:
        prompt = tensor("prompt", "BYTES", "a")
        assert api.data(prompt, tensor("n", "INT32", [1])) == ["a"]
        assert api.error_of(prompt, tensor("n", "INT32", [], [0])) == (
            500,
            "required output 'text' not found in what infer returned",
        )
        assert api.error_of(prompt)[0] == 400
