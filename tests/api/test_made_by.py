"""Processes that make their model anew, in another interpreter if they are told so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import made_anew
from penstock import Model, Processes, Request, Server, Tensor
from penstock.client import Client
from penstock.errors import SignatureError


def asked(server: Server) -> tuple[list[float], str]:
    with Client(server.http_url) as client:
        answer = client.infer("times", {"x": np.array([1.0, 2.0], np.float32)})
    return answer["y"].tolist(), answer["python"][0].decode()


def test_a_process_calls_the_function_that_makes_its_model() -> None:
    with Server(made_anew.made(3), http="127.0.0.1:0", grpc=None) as server:
        assert asked(server)[0] == [3.0, 6.0]


def test_another_interpreter_has_its_own_packages_and_needs_no_penstock(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    # Of this interpreter's packages it gets numpy alone.
    for entry in Path(np.__file__).parents[1].glob("numpy*"):
        os.symlink(entry, site / entry.name)
    (site / "made_anew.py").write_text(Path(made_anew.__file__).read_text())
    with Server(made_anew.made(4, python=str(venv / "bin" / "python")), http="127.0.0.1:0", grpc=None) as server:
        assert asked(server) == ([4.0, 8.0], str(venv))


@pytest.mark.parametrize("name", ["made", "module:", ":made", "module:a b"])
def test_what_names_no_function_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="made_by names no function"):
        Processes(1, made_by=(name, {}))


def test_an_open_model_may_say_what_it_takes() -> None:
    def echo(request: Request) -> dict[str, object]:
        return dict(request.tensors)

    tensors = [Tensor("x", np.float32, [-1]), Tensor("y", np.int64, [2])]
    model = Model(echo, inputs=tensors, outputs=tensors)
    assert model.open
    with Server(model, http="127.0.0.1:0", grpc="127.0.0.1:0") as server, Client(server.http_url) as client:
        with urllib.request.urlopen(f"{server.http_url}/v2/models/echo") as answer:
            metadata = json.loads(answer.read())
        shown = [{"name": "x", "datatype": "FP32", "shape": [-1]}, {"name": "y", "datatype": "INT64", "shape": [2]}]
        assert (metadata["inputs"], metadata["outputs"]) == (shown, shown)
        # It is shown, and nothing checks it.
        assert client.infer("echo", {"z": np.array([1.5])})["z"].tolist() == [1.5]


def test_what_an_open_model_says_of_itself_is_tensors() -> None:
    def echo(request: Request) -> None: ...

    with pytest.raises(SignatureError, match="declared twice"):
        Model(echo, inputs=[Tensor("x", np.float32, [1]), Tensor("x", np.float32, [1])])
