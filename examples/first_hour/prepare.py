"""Makes the files that photo.py needs: photo.onnx, a small classifier, and image.jpg, a photo to try it with.

    python prepare.py

The two photos that scikit-learn brings are cut into pieces, and a linear classifier learns to distinguish them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_sample_images
from sklearn.linear_model import LogisticRegression

SIDE = 32
SMALLEST, LARGEST = 160, 400  # pixels of a side


def main(folder: Path) -> None:
    """Writes photo.onnx and image.jpg into `folder`."""
    photos = [Image.fromarray(photo) for photo in load_sample_images().images]
    chance = np.random.default_rng(0)
    pieces = [(kind, piece(photo, chance)) for kind, photo in enumerate(photos) for _ in range(200)]
    pixels = np.stack([np.asarray(one.resize((SIDE, SIDE))) for _, one in pieces]).reshape(len(pieces), -1)
    classifier = LogisticRegression(C=1.0, max_iter=2000).fit(pixels / 255, [kind for kind, _ in pieces])
    onnx.save(graph(classifier.coef_[0] / 255, classifier.intercept_[0]), folder / "photo.onnx")
    photos[1].crop((200, 80, 520, 400)).save(folder / "image.jpg")


def piece(photo: Image.Image, chance: np.random.Generator) -> Image.Image:
    """A square of the photo, of a size and at a place by chance."""
    side = int(chance.integers(SMALLEST, LARGEST))
    left, top = (int(chance.integers(size - side)) for size in photo.size)
    return photo.crop((left, top, left + side, top + side))


def graph(weights: np.ndarray, bias: float) -> onnx.ModelProto:
    """The model: pixels FP32 [batch, 32, 32, 3], 0 to 255, to scores FP32 [batch, 2] that sum to 1."""
    nodes = [
        helper.make_node("Flatten", ["pixels"], ["row"]),
        helper.make_node("Gemm", ["row", "weights", "bias"], ["margins"]),
        helper.make_node("Softmax", ["margins"], ["scores"], axis=1),
    ]
    # The margin of two kinds is one number: the first kind has the margin 0.
    columns = np.stack([np.zeros_like(weights), weights], axis=1).astype(np.float32)
    constants = [
        numpy_helper.from_array(columns, "weights"),
        numpy_helper.from_array(np.array([0, bias], np.float32), "bias"),
    ]
    body = helper.make_graph(
        nodes,
        "photo",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", SIDE, SIDE, 3])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
        constants,
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    main(Path.cwd())
