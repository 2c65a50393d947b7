"""PyTriton: Triton in front, the function in a separate proxied process."""

from __future__ import annotations

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

import models


def bind(triton: Triton, name: str) -> None:
    """Adds one model."""
    served, batched = models.lookup(name), models.batched(name)

    @batch
    def joined(x):
        return {"y": served.call(x)}

    def single(requests):
        return [{"y": served.call(request["x"])} for request in requests]

    if batched:
        batcher = DynamicBatcher(max_queue_delay_microseconds=int(models.DELAY_SECONDS * 1e6))
        config = ModelConfig(batching=True, max_batch_size=models.MAX_BATCH, batcher=batcher)
    else:
        config = ModelConfig(batching=False)
    lead = () if batched else (-1,)
    triton.bind(
        model_name=name,
        infer_func=joined if batched else single,
        inputs=[Tensor(name="x", dtype=np.bytes_ if served.text else np.float32, shape=lead + served.input_shape)],
        outputs=[Tensor(name="y", dtype=np.float32, shape=lead + served.output_shape)],
        config=config,
    )


if __name__ == "__main__":
    ports = TritonConfig(http_port=models.PORT, grpc_port=models.GRPC_PORT, metrics_port=models.METRICS_PORT)
    with Triton(config=ports) as triton:
        for name in models.NAMES:
            bind(triton, name)
        triton.serve()
