"""Sends requests with both, one or none of the optional inputs."""

import sys

import numpy as np
from pytriton.client import ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"
sample = np.array([1, 2, 3], np.float32)
steps = {"scale": np.array([10], np.float32), "shift": np.array([0.5], np.float32)}

with ModelClient(url, "Transform") as client:
    for names in ((), ("scale",), ("shift",), ("scale", "shift")):
        answer = client.infer_sample(sample=sample, **{name: steps[name] for name in names})
        print(f"with {' and '.join(names) or 'neither'}:", answer["result"].tolist())
