"""`Processes(factory=...)`: processes that construct their model, optionally in another interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rebuilt_model
from penstock import Processes, Server
from penstock.client import Client


def infer(server: Server) -> tuple[list[float], str]:
    with Client(server.http_url) as client:
        outputs = client.infer("times", {"x": np.array([1.0, 2.0], np.float32)})
    return outputs["y"].tolist(), outputs["python"][0].decode()


def test_process_constructs_its_model_with_the_factory() -> None:
    with Server(rebuilt_model.build(3), http="127.0.0.1:0", grpc=None) as server:
        assert infer(server)[0] == [3.0, 6.0]


def test_other_interpreter_needs_no_penstock(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    # The environment shares only numpy with this interpreter.
    for entry in Path(np.__file__).parents[1].glob("numpy*"):
        os.symlink(entry, site / entry.name)
    (site / "rebuilt_model.py").write_text(Path(rebuilt_model.__file__).read_text())
    with Server(rebuilt_model.build(4, python=str(venv / "bin" / "python")), http="127.0.0.1:0", grpc=None) as server:
        assert infer(server) == ([4.0, 8.0], str(venv))


@pytest.mark.parametrize("name", ["made", "module:", ":made", "module:a b"])
def test_invalid_factory_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="factory names no function"):
        Processes(1, factory=(name, {}))
