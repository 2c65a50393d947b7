"""Calls the models that both scripts attach."""

import sys

import numpy as np
from pytriton.client import ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"

for name in ("Twice", "Thrice"):
    with ModelClient(url, name) as client:
        print(name, client.infer_sample(np.array([7], np.float32))["y"].item())
