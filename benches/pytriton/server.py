"""The server under test, with PyTriton or with Penstock as its replacement. Its arguments are its ports."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def double(x: Any) -> Any:
    """Hardly any work, to measure the overhead of a call."""
    return {"y": x * 2}


def echo(requests: Any) -> Any:
    """Returns large arrays unchanged."""
    return [{"y": request["x"]} for request in requests]


def bind(triton: Triton, name: str, function: Any, shape: tuple[int, ...], config: ModelConfig) -> None:
    """One model of one input and one output."""
    triton.bind(
        name,
        function,
        [Tensor(name="x", dtype=np.float32, shape=shape)],
        [Tensor(name="y", dtype=np.float32, shape=shape)],
        config=config,
    )


def main(http: int, grpc: int, metrics: int, more: int) -> None:
    """Serves until it is interrupted; with `more`, only that many small models, else the measured models."""
    config = TritonConfig(
        http_address="127.0.0.1", grpc_address="127.0.0.1", http_port=http, grpc_port=grpc, metrics_port=metrics
    )
    triton = Triton(config=config)
    for number in range(more):
        bind(triton, f"small{number}", double, (16,), ModelConfig(max_batch_size=32))
    if not more:
        dynamic = DynamicBatcher(max_queue_delay_microseconds=0)
        bind(triton, "dynamic", double, (16,), ModelConfig(max_batch_size=32, batcher=dynamic))
        bind(triton, "plain", double, (16,), ModelConfig(max_batch_size=32, batcher=None))
        bind(triton, "echo", echo, (-1,), ModelConfig(batching=False))
    with triton:
        triton.serve()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
