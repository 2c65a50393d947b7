"""The runtime that MLServer loads for each model."""

from __future__ import annotations

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse

import models


class Served(MLModel):
    async def load(self) -> bool:
        self.served = models.lookup(self.name)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = payload.inputs[0]
        if self.served.text:
            values = StringCodec.decode_input(given)
        else:
            # JSON numbers arrive as doubles.
            values = NumpyCodec.decode_input(given).astype(np.float32, copy=False)
        output = np.ascontiguousarray(self.served.call(values))
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", output)])
