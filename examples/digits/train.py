"""Trains the digit classifier on scikit-learn's bundled handwritten digits (1797 images of 8x8 pixels) and saves it.

    python train.py [FILE]               writes FILE (default: model/digits.npz), prints the held-out accuracy

The classifier is a softmax over a Gaussian kernel: an image is compared with every training image, and the ten scores
are weighted sums of these similarities. Its settings were chosen by cross-validation inside the training two thirds;
the held-out third only measures. The file holds plain arrays, no pickle, so that serving needs numpy alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from app import MODEL, WHITEST_PIXEL, classify  # the code that serves is the code that is measured
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

KERNEL_GAMMA = 0.8  # per squared distance of pixels in 0..1
REGULARISATION = 100.0  # logistic regression's C: higher fits the training images more closely


class Split(NamedTuple):
    """Images [count, 64] with pixels in 0..16, their labels [count], in a training and a held-out part."""

    images: np.ndarray
    held_out_images: np.ndarray
    labels: np.ndarray
    held_out_labels: np.ndarray


def split() -> Split:
    """The bundled digits, with the same third held out each time."""
    digits = load_digits()
    parts = train_test_split(digits.data, digits.target, test_size=1 / 3, random_state=0, stratify=digits.target)
    return Split(*parts)


def train(images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """The classifier's arrays: landmarks [count, 64], weights [count, 10], bias [10], gamma []."""
    kernel = Nystroem(gamma=KERNEL_GAMMA, n_components=len(images), random_state=0)
    features = kernel.fit_transform(images / WHITEST_PIXEL)
    softmax = LogisticRegression(C=REGULARISATION, max_iter=1000).fit(features, labels)
    return {
        "landmarks": kernel.components_.astype(np.float32),
        # Both linear steps folded into one: (likeness @ normalization.T) @ coefficients.T
        "weights": (kernel.normalization_.T @ softmax.coef_.T).astype(np.float32),
        "bias": softmax.intercept_.astype(np.float32),
        "gamma": np.float32(KERNEL_GAMMA),
    }


def save(arrays: dict[str, np.ndarray], file: Path) -> None:
    """Writes the file atomically, so that a starting server never reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{os.getpid()}.{file.name}")
    np.savez(unfinished, **arrays)
    unfinished.replace(file)


def main(file: Path) -> None:
    """Trains, measures on the held-out third, saves."""
    data = split()
    arrays = train(data.images, data.labels)
    digits, _ = classify(arrays, data.held_out_images.astype(np.float32))
    right = int((digits == data.held_out_labels).sum())
    save(arrays, file)
    print(f"held-out accuracy: {right / len(digits):.2%} ({right} of {len(digits)}); wrote {file}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL)
