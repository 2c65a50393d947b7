"""A model repository that tests write and change, and a client that loads its models."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import textwrap
from pathlib import Path
from typing import Any

from http_by_hand import get

MODEL = """
import numpy as np
from penstock import Batching, Tensor, model
{before}

@model(
    inputs=[Tensor("x", np.float32, [1])],
    outputs=[Tensor("y", np.float32, [1])],
    batching=Batching(max_size=8, max_delay=0.0),
)
class Times:
    def __init__(self):
        {build}

    def __call__(self, x):
        {call}
        return x * {factor}

    def close(self):
        {close}
"""


class Repository:
    """A repository of models that multiply by a number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)

    def put(self, name: str, version: str = "1", factor: float = 2, **code: str) -> Path:
        """Writes a version atomically. `code` fills the placeholders of `MODEL`."""
        parts = {"before": "", "build": "pass", "call": "pass", "close": "pass", **code}
        return self.write(name, version, MODEL.format(factor=factor, **parts))

    def write(self, name: str, version: str, text: str) -> Path:
        """Writes a version's model.py."""
        folder = self.path / name / version
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / ".model.py"
        fresh.write_text(textwrap.dedent(text))
        # Atomic for readers.
        os.replace(fresh, folder / "model.py")
        return folder / "model.py"


class RepositoryClient:
    """A client of the repository API, with a new connection for each request."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.address, self.tls = url.rpartition("://")[2], tls

    def __call__(self, method: str, path: str, document: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of a response."""
        connection = (
            http.client.HTTPConnection(self.address, timeout=20)
            if self.tls is None
            else http.client.HTTPSConnection(self.address, timeout=20, context=self.tls)
        )
        try:
            connection.request(method, path, None if document is None else json.dumps(document), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def factor(self, name: str, version: str = "") -> float | str:
        """The factor of a model, or the message of its refusal."""
        path = f"/v2/models/{name}" + (f"/versions/{version}" if version else "")
        one = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}
        status, response = self("POST", f"{path}/infer", {"inputs": [one]})
        return response["outputs"][0]["data"][0] if status == 200 else response["error"]

    def load(self, name: str, config: Any = None, **files: str) -> tuple[int, Any]:
        """Loads a model; `config` is a document, or its text."""
        parameters = {}
        if config is not None:
            parameters["config"] = config if isinstance(config, str) else json.dumps(config)
        parameters |= {file: base64.b64encode(text.encode()).decode() for file, text in files.items()}
        document = {"parameters": parameters} if parameters else None
        return self("POST", f"/v2/repository/models/{name}/load", document)

    def unload(self, name: str) -> tuple[int, Any]:
        """Unloads a model."""
        return self("POST", f"/v2/repository/models/{name}/unload")

    def index(self, name: str = "") -> list[dict[str, str]]:
        """The index, or the rows of one model."""
        status, rows = self("POST", "/v2/repository/index")
        assert status == 200
        return [row for row in rows if name in ("", row["name"])]

    def states(self, name: str) -> dict[str, str]:
        """The state of each version of a model."""
        return {row["version"]: row["state"] for row in self.index(name) if "version" in row}

    def metrics(self) -> str:
        """The text of /metrics."""
        return get(f"http://{self.address}", "/metrics").body.decode()

    def reason(self, name: str, version: str = "1") -> str:
        """The reason in a version's index row."""
        return next(row.get("reason", "") for row in self.index(name) if row.get("version") == version)
