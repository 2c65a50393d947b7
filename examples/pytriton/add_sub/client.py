"""Requests sums and differences, for a batch and for a sample."""

import sys

import numpy as np
from pytriton.client import ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"
left = np.array([[3], [5], [8]], np.float32)
right = np.array([[1], [2], [13]], np.float32)

with ModelClient(url, "AddSub") as client:
    answer = client.infer_batch(left, right)
    print("sums", answer["sum"].ravel().tolist())
    print("differences", answer["difference"].ravel().tolist())
    one = client.infer_sample(left=left[0], right=right[0])
    print("one", {name: value.tolist() for name, value in sorted(one.items())})
