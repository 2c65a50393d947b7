"""Penstock: `small` and `large` return their inputs."""

from __future__ import annotations

import sys

import numpy as np

from penstock import Batching, Tensor, model, serve

TENSORS = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
IMAGES = {"inputs": [Tensor("x", np.float32, [3, 640, 640])], "outputs": [Tensor("y", np.float32, [3, 640, 640])]}


def same(x):
    return x


if __name__ == "__main__":
    small = model(name="small", batching=Batching(64), **TENSORS)(same)
    large = model(name="large", batching=Batching(4), **IMAGES)(same)
    serve(small, large, http=f"127.0.0.1:{sys.argv[1]}", grpc=f"127.0.0.1:{sys.argv[2]}")
