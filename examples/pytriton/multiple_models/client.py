"""Calls both models with concurrent futures, and prints their configurations."""

import sys

import numpy as np
from pytriton.client import FuturesModelClient, ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"

with FuturesModelClient(url, "Square") as client:
    waiting = [client.infer_sample(np.array([number], np.float64)) for number in range(8)]
    squares = np.concatenate([one.result()["y"] for one in waiting])
print("squares", squares.tolist())

with ModelClient(url, "Statistics") as client:
    answer = client.infer_sample(values=squares)
    print("mean", answer["mean"].item(), "largest", answer["largest"].item())
    print("batches:", client.is_batching_supported)
