"""Example folders for `penstock init`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StartupError
from penstock.integrations import _detect

__all__ = ["write", "write_files"]

_APP = '''"""Serves a model. Start it with `penstock serve .`, or with `--reload` to reload it at each change."""

import numpy as np

from penstock import Batching, Tensor, model


@model(
    inputs=[Tensor("x", np.float32, [4])],
    outputs=[Tensor("y", np.float32, [1])],
    batching=Batching(max_size=32),
)
class Score:
    """Weighted sum of four numbers: put your own model here."""

    def __init__(self):
        # Called once, before the server takes requests: load weights here.
        self.weights = np.array([[0.1], [0.2], [0.3], [0.4]], np.float32)

    def __call__(self, x):
        # x has the shape [rows, 4]: the rows of several requests.
        return x @ self.weights
'''

_TEST = '''"""Tests the model with a whole server in process, without sockets."""

import numpy as np
from app import Score

from penstock.testing import Client


def test_rows_are_scored():
    with Client(Score) as client:
        outputs = client.infer("Score", {"x": np.ones((2, 4), np.float32)})
    np.testing.assert_allclose(outputs["y"], [[1.0], [1.0]])
'''

_SETTINGS = """# Settings of the server; each is also a flag of `penstock serve` and a PENSTOCK_* variable.
[server]
# log_level = "info"

# The image of `penstock build . -t NAME`, in addition to this folder and requirements.txt.
[image]
# system_packages = ["libgomp1"]
"""

_FILES = {
    "app.py": _APP,
    "test_app.py": _TEST,
    "requirements.txt": "numpy\n",
    "penstock.toml": _SETTINGS,
    ".dockerignore": "# Files that are left out of the image.\ntest_*.py\n",
}


def write(folder: Path, integration: str) -> list[Path]:
    """Writes an integration's example into a folder. Returns its files.

    Raises:
        StartupError: the folder is not empty, or there is no such integration.
    """
    if integration == _detect.NATIVE:
        return write_files(folder, _FILES)
    module = _detect.module(integration)
    with _new(folder):
        return module.scaffold(folder)


def write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes files, by name, into a folder. Returns them.

    Raises:
        StartupError: the folder is not empty.
    """
    with _new(folder):
        return [_write(folder / name, text) for name, text in files.items()]


@contextmanager
def _new(folder: Path) -> Iterator[None]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StartupError(f"{folder} is not empty; name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StartupError(f"{folder}: cannot be written: {error.strerror}") from None


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
