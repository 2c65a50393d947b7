"""LitServe: JSON, with base64 for binary tensors, and octets for large responses."""

from __future__ import annotations

import base64

import litserve
import numpy as np
from fastapi import Response

import models

LARGE = 1 << 20


class Served(litserve.LitAPI):
    def __init__(self, name: str, **batching):
        super().__init__(api_path=f"/predict/{name}", **batching)
        self.name = name

    def setup(self, device):
        self.call = models.lookup(self.name).call

    def decode_request(self, request):
        given = request["inputs"][0]
        if given["datatype"] == "BYTES":
            return given["data"]
        if "b64" in given:
            return np.frombuffer(base64.b64decode(given["b64"]), np.float32).reshape(given["shape"])
        return np.array(given["data"], np.float32).reshape(given["shape"])

    def batch(self, inputs):
        return np.concatenate(inputs)

    def predict(self, x):
        return self.call(x)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        if output.nbytes > LARGE:
            return Response(content=output.tobytes(), media_type="application/octet-stream")
        described = {"name": "y", "shape": [1, output.size], "datatype": "FP32", "data": output.ravel().tolist()}
        return {"model_name": self.name, "outputs": [described]}


def served(name: str) -> Served:
    if not models.batched(name):
        return Served(name)
    return Served(name, max_batch_size=models.MAX_BATCH, batch_timeout=models.DELAY_SECONDS)


if __name__ == "__main__":
    server = litserve.LitServer(
        [served(name) for name in models.NAMES], accelerator="cpu", workers_per_device=models.WORKERS, timeout=60
    )
    server.run(host="127.0.0.1", port=models.PORT, generate_client_file=False, log_level="error", access_log=False)
