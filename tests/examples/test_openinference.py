"""The Open Inference example: a function served from its folder."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock import Server
from penstock.compat import openinference

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "openinference"


def infer(url: str, **more: Any) -> tuple[int, Any]:
    texts = {"name": "texts", "datatype": "BYTES", "shape": [2], "data": ["the cat is here", "no dogs"]}
    body = json.dumps({"inputs": [texts], **more}).encode()
    try:
        with urllib.request.urlopen(f"{url}/v2/models/similarity/infer", data=body) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_openinference_example_has_no_problems() -> None:
    assert openinference.check(FOLDER) == []


def test_openinference_example_responds_as_in_the_readme() -> None:
    with Server(*openinference.load(FOLDER, {}), http="127.0.0.1:0", grpc=None) as server:
        status, response = infer(server.http_url, parameters={"question": "where is the cat"})
        assert status == 200
        assert response["outputs"][0]["data"] == [pytest.approx(0.643, abs=1e-3), 0.0]
        assert infer(server.http_url) == (400, {"error": "the parameter 'question' is missing"})
