"""An integration for tests: a folder with `toy.txt`, which contains a factor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Model, StartupError, Tensor, model
from penstock.images import ImageSpec
from penstock.integrations import Finding

CONFIDENCE = 90


def detect(path: Path) -> Finding | None:
    if (path / "toy.txt").is_file():
        return Finding("toy", "it has toy.txt", CONFIDENCE)
    return Finding("toy", "its name ends in .toy", 60) if path.suffix == ".toy" else None


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    text = (path / "toy.txt" if path.is_dir() else path).read_text()
    if not text.strip().isdigit():
        raise StartupError(f"{path.name}: {text!r} is not a number")
    factor = int(text) * int(options.get("times", 1))

    @model(name="toy", inputs=[Tensor("x", np.int32, [1])], outputs=[Tensor("y", np.int32, [1])])
    def toy(x: Any) -> Any:
        return x * factor

    return [toy]


def describe(path: Path) -> ImageSpec:
    return ImageSpec(requirements=("toys",), files=((path, "."),), serve=("--integration", "toy", "."), http_port=8123)


def scaffold(folder: Path) -> list[Path]:
    (folder / "toy.txt").write_text("3\n")
    return [folder / "toy.txt"]
