"""Sends a photograph-like image, sharp and blurred, with tritonclient over HTTP and gRPC, and prints the responses.

Usage:

    python client.py [--http HOST:PORT] [--grpc HOST:PORT]
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
import tritonclient.grpc
import tritonclient.http

if TYPE_CHECKING:
    from types import ModuleType

SIDE = 640
OUTPUTS = ["sharpness", "mean", "deviation", "histogram"]


def photograph(seed: int = 7) -> np.ndarray:
    """A sky over hills with fine texture and a sun, FP32 [3, 640, 640] in 0..1; the same for the same seed."""
    random = np.random.default_rng(seed)
    height, across = np.mgrid[0 : 1 : SIDE * 1j, 0 : 1 : SIDE * 1j]
    sky = np.stack([0.35 + 0.4 * height, 0.55 + 0.3 * height, 0.95 - 0.1 * height])
    sun = np.exp(-((height - 0.2) ** 2 + (across - 0.75) ** 2) / 0.004)
    picture = sky + sun * np.array([0.6, 0.5, 0.1]).reshape(3, 1, 1)
    for depth, colour in enumerate([(0.45, 0.55, 0.6), (0.25, 0.4, 0.25), (0.15, 0.25, 0.1)]):
        ridge = 0.5 + 0.15 * depth + 0.06 * np.sin(across * (5 + 3 * depth) + random.uniform(0, 6))
        hill = height > ridge
        picture[:, hill] = (np.reshape(colour, (3, 1, 1)) * (0.7 + 0.6 * texture(random)))[:, hill]
    return np.clip(picture, 0, 1).astype(np.float32)


def texture(random: np.random.Generator) -> np.ndarray:
    """Noise whose strength falls with frequency, as in natural images: [640, 640] in 0..1."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, np.newaxis], np.fft.rfftfreq(SIDE))
    spectrum = np.fft.rfft2(random.standard_normal((SIDE, SIDE))) / np.maximum(frequency, 1 / SIDE)
    noise = np.fft.irfft2(spectrum, s=(SIDE, SIDE))
    return (noise - noise.min()) / (noise.max() - noise.min())


def blurred(image: np.ndarray, passes: int = 3) -> np.ndarray:
    """Each pixel mixed with its neighbours `passes` times."""
    for _ in range(passes):
        for axis in (1, 2):
            image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    return image.astype(np.float32)


def ask(protocol: ModuleType, url: str, image: np.ndarray) -> dict[str, np.ndarray]:
    """Sends one image in binary; `protocol` is tritonclient.http or tritonclient.grpc, which have the same names."""
    tensor = protocol.InferInput("image", [1, *image.shape], "FP32")
    tensor.set_data_from_numpy(image[np.newaxis])
    outputs = [protocol.InferRequestedOutput(name) for name in OUTPUTS]
    with protocol.InferenceServerClient(url) as client:
        answer = client.infer("image", [tensor], outputs=outputs)
    return {name: answer.as_numpy(name)[0] for name in OUTPUTS}


def main() -> None:
    """Sends four requests: two images, two protocols."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--http", default="127.0.0.1:8000")
    arguments.add_argument("--grpc", default="127.0.0.1:8001")
    chosen = arguments.parse_args()
    np.set_printoptions(precision=4, suppress=True)
    sharp = photograph()
    for title, image in (("sharp", sharp), ("blurred", blurred(sharp))):
        for protocol, url in ((tritonclient.http, chosen.http), (tritonclient.grpc, chosen.grpc)):
            print(f"{title}, over {protocol.__name__}:")
            for name, value in ask(protocol, url, image).items():
                print(f"  {name:10} {value}")


if __name__ == "__main__":
    main()
