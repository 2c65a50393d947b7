"""Example requests of plain models: what the banner prints succeeds as it stands."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from penstock import Batching, Server, model
from penstock._serve.banner import describe


@dataclass
class Wine:
    alcohol: float


def grades(rows: list[Wine]) -> list[float]:
    return [row.alcohol / 2 for row in rows]


def add(a: int, b: float = 1.5) -> float:
    return a + b


def upper(text: str) -> str:
    return text.upper()


def size(image: Image.Image, unit: str) -> dict[str, Any]:
    return {"size": image.size, "unit": unit}


def sizes(image: list[Image.Image]) -> list[int]:
    return [one.width for one in image]


@pytest.mark.parametrize(
    ("handler", "options", "shown", "answer"),
    [
        (grades, {}, "rows list[Wine]", [0.5]),
        (grades, {"batching": Batching(max_size=8)}, "rows list[Wine]", [0.5]),
        (add, {}, "a int, b? float", 2.5),
        (upper, {}, "text str", "TEXT"),
        (size, {}, "image Image, unit str", {"size": [3, 2], "unit": "text"}),
        (sizes, {"batching": Batching(max_size=8)}, "image list[Image]", [3]),
    ],
)
def test_printed_example_succeeds(
    tmp_path: Path, handler: Any, options: dict[str, Any], shown: str, answer: Any
) -> None:
    served = model(handler, **options)
    Image.new("RGB", (3, 2)).save(tmp_path / "image.jpg")
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        lines = describe(server, [served]).splitlines()
        (example,) = (line.removeprefix("try   ") for line in lines if line.startswith("try"))
        done = subprocess.run(
            ["sh", "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
        )
    assert json.loads(done.stdout) == answer
    assert any(shown in line for line in lines), lines
    assert len(example) < 160
