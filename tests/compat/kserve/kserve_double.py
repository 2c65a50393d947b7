"""A model on the real KServe, run by KServe's interpreter. Arguments: HTTP port, gRPC port."""

from __future__ import annotations

import sys

import numpy as np
from kserve import InferOutput, InferResponse, Model, ModelServer


class Double(Model):
    def load(self):
        self.ready = True
        return True

    def predict(self, payload, headers=None, response_headers=None):
        if isinstance(payload, dict):
            if payload["instances"] == ["fail"]:
                raise RuntimeError("no such thing")
            return {"predictions": [[2 * value for value in row] for row in payload["instances"]]}
        x = payload.inputs[0].as_numpy()
        y = InferOutput("y", list(x.shape), "FP32")
        y.set_data_from_numpy((x * 2).astype(np.float32), binary_data=bool(payload.use_binary_outputs))
        return InferResponse(payload.id, self.name, [y])

    def explain(self, payload, headers=None):
        return {"explanations": payload["instances"]}


model = Double("double")
model.load()
ModelServer(http_port=int(sys.argv[1]), grpc_port=int(sys.argv[2]), workers=1).start([model])
