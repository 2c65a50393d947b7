"""Sends the divisor in a parameter, in a header, and not at all."""

import sys

import numpy as np
from pytriton.client import ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"
ten = np.array([10], np.float32)

with ModelClient(url, "Divide") as client:
    print("by a parameter", client.infer_sample(ten, parameters={"divisor": 4})["quotient"].item())
    print("by a header", client.infer_sample(ten, headers={"header_divisor": "5"})["quotient"].item())
    print("by nothing", client.infer_sample(ten)["quotient"].item())
