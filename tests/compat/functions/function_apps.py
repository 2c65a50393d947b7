"""Equivalent apps for each integration of functions and for Penstock itself, and a server with all of them.

The module `helper` of each returns the app's name and sets the variable APP. Commands make it wait, fail or exit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from http_by_hand import HttpResponse, post
from serving_process import Serving

HELPER = """
import json, os, time
NAME = {name!r}
os.environ["APP"] = NAME

def run(command):
    if command == "exit":
        os._exit(3)
    if command == "fail":
        raise ValueError("requested failure")
    if command == "wait":
        open(os.path.join({folder!r}, "started-" + NAME), "w").close()
        while not os.path.exists(os.path.join({folder!r}, "continue")):
            time.sleep(0.005)
    return json.dumps([NAME, os.environ["APP"], os.path.basename(os.getcwd()), os.getpid()])
"""
APP = """
import helper

class InferlessPythonModel:
    def initialize(self):
        self.ready = True

    def infer(self, inputs):
        return {{"identity": helper.run(inputs["command"])}}

    def finalize(self):
        open({folder!r} + "/finalized", "w").close()
"""
SCHEMA = 'INPUT_SCHEMA = {"command": {"datatype": "STRING", "shape": [1], "example": ["name"]}}\n'
FUNCTION = """
import helper

def handler(request):
    identity = helper.run(request.inputs[0].data[0])
    return {"outputs": [{"name": "identity", "datatype": "BYTES", "shape": [1], "data": [identity]}]}
"""
DEPLOYMENT = "import helper\n\ndef identify(command):\n    return helper.run(command)\n"
METADATA = "runtimeInfo:\n  mainFunction: identify\n  mainFunctionArgs: ['command:str']\n"
NATIVE = """
import helper
from penstock import model

@model
def native(command: str) -> str:
    return helper.run(command)
"""
TARGETS = ("shop", "repository", "hub/function.json", "own/app.py")
"""Paths of the served apps, below their folder."""
INTEGRATIONS = ("inferless", "modelbit", "openinference")


def write_apps(folder: Path) -> Path:
    """Writes the folders of all four apps. Returns their parent."""
    place = str(folder)
    files: dict[str, str] = {
        "shop/app.py": APP.format(folder=place),
        "shop/input_schema.py": SCHEMA,
        "shop/helper.py": HELPER.format(name="inferless", folder=place),
        "repository/deployments/identify/source.py": DEPLOYMENT,
        "repository/deployments/identify/metadata.yaml": METADATA,
        "repository/deployments/identify/helper.py": HELPER.format(name="modelbit", folder=place),
        "hub/function.json": json.dumps(_function_definition()),
        "hub/main.py": FUNCTION,
        "hub/helper.py": HELPER.format(name="openinference", folder=place),
        "own/app.py": NATIVE,
        "own/helper.py": HELPER.format(name="native", folder=place),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _function_definition() -> dict[str, Any]:
    spec = {
        "source": {"source": "main.py", "handler": "handler"},
        "python_version": "PYTHON3_11",
        "model_name": "hub",
        "inputs": [{"name": "command", "datatype": "BYTES", "shape": [1]}],
        "outputs": [{"name": "identity", "datatype": "BYTES", "shape": [1]}],
    }
    return {"kind": "openinference", "project": "p", "name": "hub", "spec": spec}


def serving(folder: Path, *more: str, targets: tuple[str, ...] = TARGETS) -> Serving:
    """Runs `penstock serve` with these targets."""
    ports = ("--http", "127.0.0.1:0", "--grpc", "off")
    return Serving(*(str(folder / one) for one in targets), *ports, *more, folder=folder)


def infer_request(text: str, shape: list[int]) -> dict[str, Any]:
    """Body of a V2 request."""
    return {"inputs": [{"name": "command", "shape": shape, "datatype": "BYTES", "data": [text]}]}


REQUESTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "inferless": ("/v2/models/shop/infer", lambda text: infer_request(text, [1])),
    "modelbit": ("/v1/identify/latest", lambda text: {"data": text}),
    "openinference": ("/v2/models/hub/infer", lambda text: infer_request(text, [1])),
    "native": ("/v2/models/native/infer", lambda text: infer_request(text, [])),
}
"""Path of each app, and its body for a command."""


def send_command(url: str, app: str, command: str = "name") -> HttpResponse:
    """Sends a command to an app, in the form of its integration."""
    path, body = REQUESTS[app]
    return post(url, path, json.dumps(body(command)).encode(), {"content-type": "application/json"})


def identity_of(response: HttpResponse) -> list[Any]:
    """Returns the app's name, its variable APP, the name of its working directory, and its process id."""
    assert response.status == 200, response.body
    body = response.json()
    text = body["data"] if "data" in body else body["outputs"][0]["data"][0]
    return list(json.loads(text))
