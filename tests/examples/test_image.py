"""The image example: agrees with plain FP64 formulas, and blur lowers sharpness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def client(example: Load) -> Iterator[Any]:
    with testing.Client(example("app").image_statistics) as client:
        yield client


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Three different images, one partly outside 0..1."""
    random = np.random.default_rng(3)
    images = random.random((3, 3, 640, 640), np.float32)
    return images * np.array([1, 0.3, 1.5], np.float32).reshape(3, 1, 1, 1) - np.float32(0.1)


def expected(image: np.ndarray) -> dict[str, np.ndarray]:
    image = image.astype(np.float64)
    brightness = np.tensordot([0.299, 0.587, 0.114], image, axes=1)
    laplacian = sum(np.roll(brightness, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * brightness
    counts, _ = np.histogram(brightness.clip(0, 1), bins=8, range=(0, 1))
    return {
        "sharpness": laplacian[1:-1, 1:-1].var(keepdims=True).reshape(1),
        "mean": image.mean(axis=(1, 2)),
        "deviation": image.std(axis=(1, 2)),
        "histogram": counts / brightness.size,
    }


def test_each_row_of_a_batch_gets_its_own_statistics(client: Any, images: np.ndarray) -> None:
    outputs = client.infer("image", {"image": images})
    shapes = {"sharpness": (3, 1), "mean": (3, 3), "deviation": (3, 3), "histogram": (3, 8)}
    assert {name: array.shape for name, array in outputs.items()} == shapes
    for row, image in enumerate(images):
        for name, value in expected(image).items():
            assert outputs[name].dtype == np.float32
            # A pixel at the edge of two bins may be in different bins in FP32 and FP64.
            np.testing.assert_allclose(outputs[name][row], value, rtol=1e-4, atol=3e-5, err_msg=name)


def test_histogram_counts_every_pixel_once(client: Any, images: np.ndarray) -> None:
    images = images.copy()
    images[0, :, :10] = np.nan
    histogram = client.infer("image", {"image": images})["histogram"]
    np.testing.assert_allclose(histogram.sum(axis=1), 1, atol=1e-6)


def test_blur_lowers_sharpness(example: Load, client: Any) -> None:
    pytest.importorskip("tritonclient.http", reason="client.py needs tritonclient")
    pytest.importorskip("tritonclient.grpc", reason="client.py needs tritonclient")
    module = example("client")
    sharp = module.photograph()
    assert (sharp.dtype, sharp.shape) == (np.float32, (3, 640, 640))
    pair = np.stack([sharp, module.blurred(sharp)])
    first, second = client.infer("image", {"image": pair})["sharpness"][:, 0]
    assert first > 10 * second
