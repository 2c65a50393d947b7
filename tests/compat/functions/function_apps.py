"""An app for each integration of functions and a model of Penstock's own, which all do the same, and a server of them.

All have a module `helper`, which says who it is, sets the variable WHO, and waits, fails or ends its process if asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from http_by_hand import Answer, post
from serving_process import Serving

HELPER = """
import json, os, time
NAME = {name!r}
os.environ["WHO"] = NAME

def told(ask):
    if ask == "end":
        os._exit(3)
    if ask == "fail":
        raise ValueError("as was asked")
    if ask == "wait":
        open(os.path.join({folder!r}, "begun-" + NAME), "w").close()
        while not os.path.exists(os.path.join({folder!r}, "go")):
            time.sleep(0.005)
    return json.dumps([NAME, os.environ["WHO"], os.path.basename(os.getcwd()), os.getpid()])
"""
APP = """
import helper

class InferlessPythonModel:
    def initialize(self):
        self.ready = True

    def infer(self, inputs):
        return {{"told": helper.told(inputs["ask"])}}

    def finalize(self):
        open({folder!r} + "/finalized", "w").close()
"""
FUNCTION = """
import helper

def handler(request):
    told = helper.told(request.inputs[0].data[0])
    return {"outputs": [{"name": "told", "datatype": "BYTES", "shape": [1], "data": [told]}]}
"""
METADATA = "runtimeInfo:\n  mainFunction: asked\n  mainFunctionArgs: ['ask:str']\n"
NATIVE = """
import helper
from penstock import model

@model
def native(ask: str) -> str:
    return helper.told(ask)
"""
TARGETS = ("shop", "repository", "hub/function.json", "own/app.py")
"""What is served, by its path below the folder."""
INTEGRATIONS = ("inferless", "modelbit", "openinference")


def written(folder: Path) -> Path:
    """The folders of all four."""
    place = str(folder)
    files: dict[str, str] = {
        "shop/app.py": APP.format(folder=place),
        "shop/input_schema.py": 'INPUT_SCHEMA = {"ask": {"datatype": "STRING", "shape": [1], "example": ["name"]}}\n',
        "shop/helper.py": HELPER.format(name="inferless", folder=place),
        "repository/deployments/asked/source.py": "import helper\n\ndef asked(ask):\n    return helper.told(ask)\n",
        "repository/deployments/asked/metadata.yaml": METADATA,
        "repository/deployments/asked/helper.py": HELPER.format(name="modelbit", folder=place),
        "hub/function.json": json.dumps(_entity()),
        "hub/main.py": FUNCTION,
        "hub/helper.py": HELPER.format(name="openinference", folder=place),
        "own/app.py": NATIVE,
        "own/helper.py": HELPER.format(name="native", folder=place),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _entity() -> dict[str, Any]:
    spec = {
        "source": {"source": "main.py", "handler": "handler"},
        "python_version": "PYTHON3_11",
        "model_name": "hub",
        "inputs": [{"name": "ask", "datatype": "BYTES", "shape": [1]}],
        "outputs": [{"name": "told", "datatype": "BYTES", "shape": [1]}],
    }
    return {"kind": "openinference", "project": "p", "name": "hub", "spec": spec}


def serving(folder: Path, *more: str, targets: tuple[str, ...] = TARGETS) -> Serving:
    """`penstock serve` of them."""
    ports = ("--http", "127.0.0.1:0", "--grpc", "off")
    return Serving(*(str(folder / one) for one in targets), *ports, *more, folder=folder)


def tensor(text: str, shape: list[int]) -> dict[str, Any]:
    """The body of a V2 request."""
    return {"inputs": [{"name": "ask", "shape": shape, "datatype": "BYTES", "data": [text]}]}


QUESTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "inferless": ("/v2/models/shop/infer", lambda text: tensor(text, [1])),
    "modelbit": ("/v1/asked/latest", lambda text: {"data": text}),
    "openinference": ("/v2/models/hub/infer", lambda text: tensor(text, [1])),
    "native": ("/v2/models/native/infer", lambda text: tensor(text, [])),
}
"""The path of each, and its body for a text."""


def ask(url: str, who: str, text: str = "name") -> Answer:
    """Asks one of them, in its own form."""
    path, body = QUESTIONS[who]
    return post(url, path, json.dumps(body(text)).encode(), {"content-type": "application/json"})


def told(answer: Answer) -> list[Any]:
    """The name, WHO, folder and process number that it tells."""
    assert answer.status == 200, answer.body
    found = answer.json()
    text = found["data"] if "data" in found else found["outputs"][0]["data"][0]
    return list(json.loads(text))
