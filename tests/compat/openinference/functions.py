"""Open Inference functions for the tests, and their servers."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock import Server
from penstock.compat.openinference import load

PYTHON = "PYTHON3_11"
ECHO = "def handler(request):\n    return {'outputs': [one.dict() for one in request.inputs]}\n"


def entity(**spec: Any) -> dict[str, Any]:
    """Returns a definition; the arguments replace its defaults."""
    whole = {
        "source": {"code": ECHO, "handler": "handler"},
        "python_version": PYTHON,
        "model_name": "m",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
        **spec,
    }
    return {"kind": "openinference", "project": "p", "name": "f", "spec": whole}


def write_function(folder: Path, code: str | None = None, settings: dict[str, Any] | None = None, **spec: Any) -> Path:
    """Writes a definition, and code next to it, to a folder."""
    if code is not None:
        (folder / "main.py").write_text(code)
        source = {"source": "main.py", "handler": "handler", **spec.pop("source", {})}
        spec["source"] = source
    (folder / "function.json").write_text(json.dumps({**entity(**spec), "penstock": settings or {}}))
    return folder


class Served:
    """Client of a running function."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.server.http_url + path, data=data)) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def infer(self, *inputs: dict[str, Any], model: str = "m", **rest: Any) -> tuple[int, Any]:
        return self.get(f"/v2/models/{model}/infer", {"inputs": list(inputs), **rest})

    def infer_row(self, *data: Any, datatype: str = "FP32", **rest: Any) -> tuple[int, Any]:
        return self.infer({"name": "x", "datatype": datatype, "shape": [len(data)], "data": list(data)}, **rest)

    def text(self) -> Any:
        """Returns the single text of the handler's response."""
        status, response = self.infer_row(1.0)
        assert status == 200, response
        return response["outputs"][0]["data"][0]


@contextlib.contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Served]:
    with Server(*load(folder, options), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield Served(server)


def handler_code(expression: str, takes: str = "request", before: str = "") -> str:
    """Returns the code of a handler that returns the value of an expression."""
    return f"""
{before}
def handler({takes}):
    return {{"outputs": [{{"name": "result", "datatype": "BYTES", "shape": [1], "data": [str({expression})]}}]}}
"""
