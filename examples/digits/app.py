"""Handwritten digits: an image of 8x8 pixels in, the digit and the ten probabilities out.

Serving needs numpy alone:

    penstock serve app.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from penstock import Batching, Tensor, model

HERE = Path(__file__).resolve().parent
MODEL = HERE / "model" / "digits.npz"
WHITEST_PIXEL = np.float32(16)


@model(
    name="digits",
    inputs=[Tensor("image", np.float32, [64])],
    outputs=[Tensor("digit", np.int64, [1]), Tensor("probabilities", np.float32, [10])],
    batching=Batching(max_size=64),
)
class Digits:
    """Classifier with the trained arrays; built once per instance."""

    def __init__(self) -> None:
        self.arrays = load_arrays(MODEL)

    def __call__(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """image: FP32 [batch, 64], row by row from the top, ink from 0 (none) to 16 (full)."""
        digits, probabilities = classify(self.arrays, image)
        return digits[:, np.newaxis], probabilities


def classify(arrays: dict[str, np.ndarray], images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most probable digit, INT64 [batch], and the probabilities, FP32 [batch, 10], of images FP32 [batch, 64]."""
    likeness = np.exp(-arrays["gamma"] * squared_distances(images / WHITEST_PIXEL, arrays["landmarks"]))
    scores = likeness @ arrays["weights"] + arrays["bias"]
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities.argmax(axis=1), probabilities


def squared_distances(rows: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Squared distances of rows to landmarks, [len(rows), len(landmarks)], with one matrix product."""
    row_squares = np.einsum("ij,ij->i", rows, rows)[:, np.newaxis]
    landmark_squares = np.einsum("ij,ij->i", landmarks, landmarks)
    return np.maximum(row_squares + landmark_squares - 2 * (rows @ landmarks.T), 0)


def load_arrays(file: Path) -> dict[str, np.ndarray]:
    """Loads the arrays of train.py, which runs at the first start."""
    if not file.exists():
        print(f"digits: no {file.name} yet, training it (a second or two, needs scikit-learn) ...", file=sys.stderr)
        # In a separate process, so that the server never loads scikit-learn.
        subprocess.run([sys.executable, str(HERE / "train.py"), str(file)], check=True)  # noqa: S603 - our own script and path
    with np.load(file, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
