"""Shows a held-out digit and a ready curl for it.

Usage:

    python sample.py [NUMBER] [--save]   NUMBER: which of the 599 held-out digits (default 0); --save: into sample.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from train import split

INK = " .:-=+*#%@"
URL = "http://127.0.0.1:8000/v2/models/digits/infer"


def request(number: int) -> dict[str, Any]:
    """The request for one held-out digit; its id, which the response repeats, names the right digit."""
    data = split()
    pixels = [int(pixel) for pixel in data.held_out_images[number]]
    image = {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": pixels}
    return {"id": f"this is a {data.held_out_labels[number]}", "inputs": [image]}


def drawing(pixels: list[int]) -> str:
    """The 64 pixels as eight lines, each pixel two characters wide."""
    shades = [INK[round(pixel / 16 * (len(INK) - 1))] * 2 for pixel in pixels]
    return "\n".join("".join(row) for row in np.array(shades).reshape(8, 8))


def main() -> None:
    """Reads the command line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("number", type=int, nargs="?", default=0)
    arguments.add_argument("--save", action="store_true")
    chosen = arguments.parse_args()
    body = request(chosen.number)
    text = json.dumps(body)
    if chosen.save:
        (Path(__file__).parent / "sample.json").write_text(text + "\n")
    print(drawing(body["inputs"][0]["data"]))
    print(f"\n# {body['id']}\ncurl -s {URL} -d '{text}'")


if __name__ == "__main__":
    main()
