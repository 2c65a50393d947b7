"""PyTriton: a decoupled model."""

from __future__ import annotations

import sys

import numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def tokens(requests):
    for i in range(int(requests[0]["n"][0])):
        yield [{"i": np.array([i], np.int32)}]


if __name__ == "__main__":
    http, grpc, metrics = (int(port) for port in sys.argv[1:4])
    config = TritonConfig(http_port=http, grpc_port=grpc, metrics_port=metrics)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="tokens",
            infer_func=tokens,
            inputs=[Tensor(name="n", dtype=np.int32, shape=(1,))],
            outputs=[Tensor(name="i", dtype=np.int32, shape=(1,))],
            config=ModelConfig(batching=False, decoupled=True),
        )
        triton.serve()
