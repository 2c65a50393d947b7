"""The digits example: it trains for real, and is as good at held-out digits as its README says."""

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
    """Serves a model that does not exist yet, so that the first start trains it."""
    app = example("app")
    app.MODEL = file
    with testing.Client(app.Digits) as client:
        yield client


def test_held_out_digits_are_recognised(example: Load, client: Any) -> None:
    data = example("train").split()
    right = 0
    for start in range(0, len(data.held_out_labels), 64):
        images = data.held_out_images[start : start + 64].astype(np.float32)
        answer = client.infer("digits", {"image": images})
        right += int((answer["digit"][:, 0] == data.held_out_labels[start : start + 64]).sum())
    assert len(data.held_out_labels) == 599
    assert right / 599 >= 0.985


def test_answer_has_the_declared_shapes_and_sums_to_one(example: Load, client: Any) -> None:
    images = example("train").split().held_out_images[:5].astype(np.float32)
    answer = client.infer("digits", {"image": images})
    assert (answer["digit"].dtype, answer["digit"].shape) == (np.int64, (5, 1))
    assert (answer["probabilities"].dtype, answer["probabilities"].shape) == (np.float32, (5, 10))
    np.testing.assert_allclose(answer["probabilities"].sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(answer["probabilities"].argmax(axis=1), answer["digit"][:, 0])


def test_sample_file_is_a_held_out_digit_and_is_recognised(example: Load, client: Any) -> None:
    sample = example("sample")
    body = json.loads((Path(sample.__file__).parent / "sample.json").read_text())
    assert body == sample.request(0)
    image = body["inputs"][0]
    pixels = np.array(image["data"], np.float32).reshape(image["shape"])
    digit = client.infer("digits", {"image": pixels})["digit"]
    assert body["id"] == f"this is a {digit.item()}"


def test_drawing_has_a_row_for_each_row_of_pixels(example: Load) -> None:
    lines = example("sample").drawing([0, 16] * 4 + [0] * 56).split("\n")
    assert lines == ["  @@" * 4] + [" " * 16] * 7


def test_model_file_needs_no_pickle(client: Any, file: Path) -> None:
    with np.load(file, allow_pickle=False) as saved:
        assert {name: saved[name].dtype.kind for name in saved.files} == dict.fromkeys(
            ["landmarks", "weights", "bias", "gamma"], "f"
        )
