"""Ray Serve: a deployment for each model, JSON by the Open Inference Protocol's spelling."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import numpy as np
import ray
from ray import serve
from starlette.requests import Request

sys.path.insert(0, os.path.dirname(__file__))
import models


def deployment(name: str):
    """One model; only the batched names join requests."""
    size = models.MAX_BATCH if models.batched(name) else 1

    @serve.deployment(name=name, max_ongoing_requests=1000)
    class Served:
        def __init__(self):
            self.call = models.lookup(name).call

        @serve.batch(max_batch_size=size, batch_wait_timeout_s=models.DELAY_SECONDS if size > 1 else 0)
        async def compute(self, rows):
            # Off the event loop, which accepts requests meanwhile.
            return list(await asyncio.to_thread(self.call, np.concatenate(rows)))

        async def __call__(self, request: Request):
            given = (await request.json())["inputs"][0]
            row = await self.compute(np.array(given["data"], np.float32).reshape(given["shape"]))
            output = {"name": "y", "shape": [1, *row.shape], "datatype": "FP32", "data": row.ravel().tolist()}
            return {"model_name": name, "outputs": [output]}

    return Served.bind()


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    serve.start(http_options={"host": "127.0.0.1", "port": models.PORT})
    for name in models.NAMES:
        serve.run(deployment(name), name=name, route_prefix=f"/{name}")
    while True:
        time.sleep(3600)
