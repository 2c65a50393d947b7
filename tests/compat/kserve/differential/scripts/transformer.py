"""A transformer in front of a predictor, with a pod's flags and one model per name; prints its address."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import NEW, report_when_up
from kserve import InferInput, InferRequest, Model, ModelServer, model_server
from kserve.model import PredictorConfig

parser = argparse.ArgumentParser(parents=[model_server.parser])
args, _ = parser.parse_known_args()


class Transformer(Model):
    """Doubles requests and marks responses."""

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Returns a request of the predictor's protocol."""
        if self.name != "double" or args.predictor_protocol == "v1":
            return payload
        array = (
            np.array(payload["instances"], np.float32) if isinstance(payload, dict) else payload.inputs[0].as_numpy()
        )
        tensor = InferInput("x", list(array.shape), "FP32")
        tensor.set_data_from_numpy(array * 10, binary_data=args.predictor_protocol == "grpc-v2")
        return InferRequest(self.name, [tensor], "of-the-transformer")

    def postprocess(self, result: Any, headers: Any = None) -> Any:
        """Returns the other protocol's response on request."""
        if isinstance(result, dict):
            return {**result, "by": "transformer"}
        if self.name == "double":
            return {"predictions": result.outputs[0].as_numpy().tolist(), "id": result.id, "by": "transformer"}
        return result


def create(name: str) -> Model:
    """Creates a transformer in the dialect's way."""
    if NEW:
        return Transformer(name)
    config = PredictorConfig(
        args.predictor_host, args.predictor_protocol, args.predictor_use_ssl, args.predictor_request_timeout_seconds
    )
    return Transformer(name, predictor_config=config)  # type: ignore[call-arg]


if __name__ == "__main__":
    models = [create(name) for name in ("double", "echo", "fails", "seen", "nope", "stages")]
    for model in models:
        model.load()
    report_when_up(args.http_port, grpc=args.grpc_port)
    ModelServer().start(models)
