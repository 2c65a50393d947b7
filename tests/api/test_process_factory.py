"""Processes that make their model anew, in another interpreter if they are told so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import made_anew
from penstock import Processes, Server
from penstock.client import Client


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
    with pytest.raises(ValueError, match="factory names no function"):
        Processes(1, factory=(name, {}))
