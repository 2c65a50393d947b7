"""The example of a function of Open Inference, served as it lies there."""

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


def asked(url: str, **more: Any) -> tuple[int, Any]:
    texts = {"name": "texts", "datatype": "BYTES", "shape": [2], "data": ["the cat is here", "no dogs"]}
    body = json.dumps({"inputs": [texts], **more}).encode()
    try:
        with urllib.request.urlopen(f"{url}/v2/models/similarity/infer", data=body) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_it_is_without_problems() -> None:
    assert openinference.check(FOLDER) == []


def test_it_answers_as_its_readme_says() -> None:
    with Server(*openinference.load(FOLDER, {}), http="127.0.0.1:0", grpc=None) as server:
        status, answer = asked(server.http_url, parameters={"question": "where is the cat"})
        assert status == 200
        assert answer["outputs"][0]["data"] == [pytest.approx(0.643, abs=1e-3), 0.0]
        assert asked(server.http_url) == (400, {"error": "the parameter 'question' is missing"})
