"""The digits example: trains a real model, which has the accuracy of the README on held-out digits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the digits example trains with scikit-learn")
testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("digits") / "model" / "digits.npz"


@pytest.fixture(scope="module")
def client(example: Load, file: Path) -> Iterator[Any]:
    """Client of a server without a model file, which trains at its start."""
    app = example("app")
    app.MODEL = file
    with testing.Client(app.Digits) as client:
        yield client


def test_held_out_digits_are_recognised(example: Load, client: Any) -> None:
    data = example("train").split()
    correct = 0
    for start in range(0, len(data.held_out_labels), 64):
        images = data.held_out_images[start : start + 64].astype(np.float32)
        response = client.infer("digits", {"image": images})
        correct += int((response["digit"][:, 0] == data.held_out_labels[start : start + 64]).sum())
    assert len(data.held_out_labels) == 599
    assert correct / 599 >= 0.985


def test_outputs_have_declared_shapes_and_probabilities_sum_to_one(example: Load, client: Any) -> None:
    images = example("train").split().held_out_images[:5].astype(np.float32)
    response = client.infer("digits", {"image": images})
    assert (response["digit"].dtype, response["digit"].shape) == (np.int64, (5, 1))
    assert (response["probabilities"].dtype, response["probabilities"].shape) == (np.float32, (5, 10))
    np.testing.assert_allclose(response["probabilities"].sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(response["probabilities"].argmax(axis=1), response["digit"][:, 0])


def test_sample_file_is_a_recognised_held_out_digit(example: Load, client: Any) -> None:
    sample = example("sample")
    body = json.loads((Path(sample.__file__).parent / "sample.json").read_text())
    assert body == sample.request(0)
    image = body["inputs"][0]
    pixels = np.array(image["data"], np.float32).reshape(image["shape"])
    digit = client.infer("digits", {"image": pixels})["digit"]
    assert body["id"] == f"this is a {digit.item()}"


def test_drawing_has_a_line_per_row_of_pixels(example: Load) -> None:
    lines = example("sample").drawing([0, 16] * 4 + [0] * 56).split("\n")
    assert lines == ["  @@" * 4] + [" " * 16] * 7


def test_model_file_needs_no_pickle(client: Any, file: Path) -> None:
    with np.load(file, allow_pickle=False) as saved:
        assert {name: saved[name].dtype.kind for name in saved.files} == dict.fromkeys(
            ["landmarks", "weights", "bias", "gamma"], "f"
        )
