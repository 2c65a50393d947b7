"""Apps for tests, written to a folder and served with or without a socket."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock import Server
from penstock.compat import inferless
from penstock.testing import Client, Response

NAME = "shop"
ANY = 'INPUT_SCHEMA = {"x": {"datatype": "STRING", "shape": [1], "required": False, "example": ["a"]}}\n'


def app_class(body: str, name: str = "InferlessPythonModel") -> str:
    """Returns an `app.py` with a class."""
    return f"import os, sys, time\n\nclass {name}:\n{textwrap.indent(textwrap.dedent(body), '    ')}"


def write_app(folder: Path, app: str, schema: str | None = ANY, **files: str) -> Path:
    """Writes an app's folder. Further files are keyword arguments, with two underscores for the dot."""
    home = folder / NAME
    home.mkdir(parents=True, exist_ok=True)
    (home / "app.py").write_text(textwrap.dedent(app))
    if schema is not None:
        (home / "input_schema.py").write_text(textwrap.dedent(schema))
    for name, text in files.items():
        (home / name.replace("__", ".").replace("_dash_", "-")).write_text(textwrap.dedent(text))
    return home


def tensor(name: str, datatype: str, data: Any, shape: list[int] | None = None) -> dict[str, Any]:
    """Returns a tensor of a request."""
    data = data if isinstance(data, list) else [data]
    return {"name": name, "shape": [len(data)] if shape is None else shape, "datatype": datatype, "data": data}


class AppClient:
    """Client of an app served without a socket."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def post(self, verb: str, body: Any, **headers: str) -> Response:
        """Posts a body to one of the app's paths."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(f"/v2/models/{self.name}/{verb}", json.dumps(body), headers=sent)

    def infer(self, *tensors: dict[str, Any], **more: Any) -> Response:
        """Sends tensors to `infer`."""
        return self.post("infer", {"inputs": list(tensors), **more})

    def outputs(self, *tensors: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Returns the outputs for tensors, by name: datatype, shape and data."""
        response = self.infer(*tensors, **more)
        assert response.status == 200, response.body
        return {one["name"]: (one["datatype"], one["shape"], one["data"]) for one in response.json()["outputs"]}

    def error_of(self, *tensors: dict[str, Any], **more: Any) -> tuple[int, str]:
        """Returns the status and message of the error for tensors."""
        response = self.infer(*tensors, **more)
        assert response.status >= 400, response.body
        return response.status, response.json()["error"]

    def data(self, *tensors: dict[str, Any]) -> Any:
        """Returns the elements of the only output."""
        (output,) = self.outputs(*tensors).values()
        return output[2]


@contextmanager
def served(home: Path, **options: Any) -> Iterator[AppClient]:
    """Serves an app without a socket."""
    models = inferless.load(home, options)
    with Client(*models) as client:
        yield AppClient(client, models[0].name)


@contextmanager
def live(home: Path, **options: Any) -> Iterator[str]:
    """Serves an app over HTTP; yields the URL up to the model's name."""
    models = inferless.load(home, options)
    with Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield f"{server.http_url}/v2/models/{models[0].name}"
