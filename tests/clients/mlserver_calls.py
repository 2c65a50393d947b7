"""Calls `double` with the codecs of MLServer's clients, and prints the responses as JSON.

Run by an interpreter that has MLServer: `python mlserver_calls.py HTTP_URL GRPC_ADDRESS`.
"""

from __future__ import annotations

import json
import sys
import urllib.request

import grpc
import numpy as np
from mlserver.codecs import NumpyCodec
from mlserver.grpc import dataplane_pb2_grpc
from mlserver.grpc.converters import ModelInferRequestConverter, ModelInferResponseConverter
from mlserver.types import InferenceRequest, InferenceResponse

VALUES = np.array([[1, 2, 3, 4.5]], np.float32)


def values(response: InferenceResponse) -> list[object]:
    return [response.id, NumpyCodec.decode_output(response.outputs[0]).tolist()]


def main(http: str, address: str) -> None:
    request = InferenceRequest(id="from-mlserver", inputs=[NumpyCodec.encode_input("x", VALUES)])
    post = urllib.request.Request(
        f"{http}/v2/models/double/infer",
        data=request.model_dump_json().encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(post, timeout=20) as response:
        results = {"rest": values(InferenceResponse.model_validate_json(response.read()))}
    with grpc.insecure_channel(address) as channel:
        stub = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel)
        for name, use_raw in (("typed", False), ("raw", True)):
            message = ModelInferRequestConverter.from_types(
                request, model_name="double", model_version=None, use_raw=use_raw
            )
            results[name] = values(ModelInferResponseConverter.to_types(stub.ModelInfer(message, timeout=20)))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
