"""Sends two pictures for a description and a comparison.

Usage:

    python client.py [--http HOST:PORT]
"""

from __future__ import annotations

import argparse

import numpy as np
import tritonclient.http


def sky(height: int = 300, width: int = 400) -> np.ndarray:
    """UINT8 [height, width, 3], lighter towards the ground."""
    light = np.linspace(120, 200, height)[:, None, None]
    return np.broadcast_to(light * [0.6, 0.8, 1.2], (height, width, 3)).astype(np.uint8)


def bricks(height: int = 240, width: int = 160) -> np.ndarray:
    """UINT8 [height, width, 3], a wall."""
    wall = (np.arange(height)[:, None] // 4 + np.arange(width) // 8) % 2
    return (wall[:, :, None] * [180, 70, 50]).astype(np.uint8)


def tensor(name: str, picture: np.ndarray) -> tritonclient.http.InferInput:
    """One picture to send."""
    return tritonclient.http.InferInput(name, list(picture.shape), "UINT8").set_data_from_numpy(picture)


def main() -> None:
    """Prints three lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", default="127.0.0.1:8000")
    client = tritonclient.http.InferenceServerClient(parser.parse_args().http)
    for name, picture in (("sky", sky()), ("bricks", bricks())):
        result = client.infer("describe", [tensor("picture", picture)])
        print(f"{name}: {result.as_numpy('words').item().decode()}")
    result = client.infer("compare", [tensor("left", sky()), tensor("right", bricks())])
    print(f"both: {result.as_numpy('answer').item().decode()}")


if __name__ == "__main__":
    main()
