"""Sends a noisy wave in chunks, like a microphone, and prints how much smoother the result is.

Usage:

    python client.py [--http HOST:PORT]
"""

from __future__ import annotations

import argparse

import numpy as np
import tritonclient.http

PIECES = 20


def wave(seed: int = 7) -> np.ndarray:
    """A sine with noise, FP32 [2000]; the same for the same seed."""
    random = np.random.default_rng(seed)
    return (np.sin(np.linspace(0, 12, 2000)) + 0.3 * random.standard_normal(2000)).astype(np.float32)


def roughness(signal: np.ndarray) -> float:
    """The mean step from one value to the next."""
    return float(np.abs(np.diff(signal)).mean())


def main() -> None:
    """Sends all chunks of one signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", default="127.0.0.1:8000")
    client = tritonclient.http.InferenceServerClient(parser.parse_args().http)
    signal, answers = wave(), []
    for index, piece in enumerate(np.array_split(signal, PIECES)):
        tensor = tritonclient.http.InferInput("signal", list(piece.shape), "FP32").set_data_from_numpy(piece)
        start, end = index == 0, index == PIECES - 1
        result = client.infer("smooth", [tensor], sequence_id=1, sequence_start=start, sequence_end=end)
        answers.append(result.as_numpy("smooth"))
    print(f"mean step: {roughness(signal):.3f} sent, {roughness(np.concatenate(answers)):.3f} back")


if __name__ == "__main__":
    main()
