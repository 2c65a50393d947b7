"""Image statistics: a 640x640 colour image in, sharpness, mean and deviation of each channel, a histogram out.

    penstock serve app.py

Each image is 4.9 MB on the wire: this example is about large input tensors.
"""

from __future__ import annotations

import numpy as np

from penstock import Batching, Tensor, Threads, model

SIDE = 640
BINS = 8
RED, GREEN, BLUE = np.array([0.299, 0.587, 0.114], np.float32)  # weight of each channel in brightness (ITU-R BT.601)


@model(
    name="image",
    inputs=[Tensor("image", np.float32, [3, SIDE, SIDE])],
    outputs=[
        Tensor("sharpness", np.float32, [1]),
        Tensor("mean", np.float32, [3]),
        Tensor("deviation", np.float32, [3]),
        Tensor("histogram", np.float32, [BINS]),
    ],
    batching=Batching(max_size=8),
    instances=Threads(2),  # numpy releases the GIL while it computes: two threads use two cores
)
def image_statistics(image: np.ndarray) -> dict[str, np.ndarray]:
    """image: FP32 [batch, 3, 640, 640], red, green, blue, each in 0..1."""
    # One image at a time fits into the processor's cache, a batch does not.
    rows = [statistics(pixels) for pixels in image]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def statistics(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """The four outputs for one image, FP32 [3, height, width]."""
    # Not a matrix product: numpy's linear algebra starts threads, for which two instances would compete.
    brightness = pixels[0] * RED
    brightness += pixels[1] * GREEN
    brightness += pixels[2] * BLUE
    channels = pixels.reshape(3, -1)
    return {
        "sharpness": sharpness(brightness),
        "mean": channels.mean(axis=1),
        "deviation": channels.std(axis=1),
        "histogram": histogram(brightness),
    }


def sharpness(brightness: np.ndarray) -> np.ndarray:
    """The variance of the Laplacian, FP32 [1]: edges make it large, blur makes it small."""
    laplacian = brightness[1:-1, 1:-1] * np.float32(-4)
    laplacian += brightness[:-2, 1:-1]
    laplacian += brightness[2:, 1:-1]
    laplacian += brightness[1:-1, :-2]
    laplacian += brightness[1:-1, 2:]
    return laplacian.var().reshape(1)


def histogram(brightness: np.ndarray) -> np.ndarray:
    """The share of the pixels in each of eight equal steps from dark to bright, FP32 [8]; they sum to 1."""
    # Counting below each edge puts values outside 0..1 into the outermost bins, and NaN into the last.
    below = [np.count_nonzero(brightness < step / BINS) for step in range(1, BINS)]
    return (np.diff([0, *below, brightness.size]) / brightness.size).astype(np.float32)
