"""KServe's Python model server, its three log lines a request turned off."""

from __future__ import annotations

import logging
import sys

import models

# KServe reads its settings from the command line, when it is imported.
sys.argv[1:] = [
    f"--http_port={models.PORT}",
    f"--grpc_port={models.GRPC_PORT}",
    "--enable_latency_logging=false",
]
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer  # noqa: E402
from kserve.logging import configure_logging  # noqa: E402


class Served(Model):
    def __init__(self, name: str):
        super().__init__(name)
        self.call = models.lookup(name).call
        self.ready = True

    async def predict(self, payload: InferRequest, headers=None, response_headers=None):
        values = self.call(payload.inputs[0].as_numpy())
        output = InferOutput("y", list(values.shape), "FP32")
        # KServe converts it to a list if JSON is requested.
        output.set_data_from_numpy(values, binary_data=True)
        return InferResponse(
            payload.id or "1",
            self.name,
            [output],
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


if __name__ == "__main__":
    configure_logging()
    for logger in ("uvicorn.access", "kserve.trace", "kserve"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    ModelServer().start([Served(name) for name in models.NAMES])
