"""The server under test, with KServe or with Penstock as its replacement. Its arguments are the flags of a pod."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import Any

import numpy as np

LOGS = os.environ.get("BENCH_LOGS") == "1"
"""True if both log each request, which is their default."""
if not LOGS:
    sys.argv.append("--enable_latency_logging=false")
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server  # noqa: E402
from kserve.logging import configure_logging  # noqa: E402


class Double(Model):
    """Hardly any work, to measure the overhead of a call."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns twice the numbers, in the request's protocol."""
        if isinstance(payload, dict):
            return {"predictions": [[2 * number for number in row] for row in payload["instances"]]}
        values = payload.inputs[0].as_numpy() * np.float32(2)
        output = InferOutput("y", list(values.shape), "FP32")
        output.set_data_from_numpy(values, binary_data=True)
        return InferResponse(
            payload.id or "1",
            self.name,
            [output],
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


class Awaited(Double):
    """The model as a coroutine."""

    async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
        """Returns twice the numbers."""
        return super().predict(payload, headers)


class Blocking(Model):
    """A library that computes for 50 ms and releases the GIL meanwhile."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns the input."""
        time.sleep(0.05)
        return {"predictions": payload["instances"]}


class Transformer(Model):
    """Forwards to the predictor."""

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Returns the request unchanged."""
        return payload

    async def postprocess(self, result: Any, headers: Any = None) -> Any:
        """Returns the response unchanged."""
        return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    if not LOGS:
        configure_logging()
        for logger in ("uvicorn.access", "kserve.trace", "kserve"):
            logging.getLogger(logger).setLevel(logging.WARNING)
    models = (
        [Transformer("double")] if args.predictor_host else [Double("double"), Awaited("awaited"), Blocking("blocking")]
    )
    for model in models:
        model.load()
    ModelServer().start(models)
