"""Declared inputs and outputs of raw-request models: metadata only, not checked."""

from __future__ import annotations

import io
import json
import urllib.request
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from penstock import Batching, Model, Request, Server, Tensor
from penstock.client import Client
from penstock.errors import SignatureError

TENSORS = [Tensor("x", np.float32, [-1]), Tensor("y", np.int64, [2])]
METADATA = [{"name": "x", "datatype": "FP32", "shape": [-1]}, {"name": "y", "datatype": "INT64", "shape": [2]}]


def echo(request: Request) -> dict[str, object]:
    """Returns its input tensors."""
    return dict(request.tensors)


def echo_batch(requests: list[Request]) -> list[dict[str, object]]:
    """Returns the input tensors of each request."""
    return [dict(request.tensors) for request in requests]


def read(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.loads(response.read())


@pytest.mark.parametrize(("handler", "batching"), [(echo, None), (echo_batch, Batching(max_size=8))])
def test_declared_tensors_appear_in_metadata(handler: Any, batching: Batching | None) -> None:
    model = Model(handler, name="echo", inputs=TENSORS, outputs=TENSORS, batching=batching)
    assert model.open
    with Server(model, http="127.0.0.1:0", grpc="127.0.0.1:0") as server, Client(server.http_url) as client:
        metadata = read(f"{server.http_url}/v2/models/echo")
        assert (metadata["inputs"], metadata["outputs"]) == (METADATA, METADATA)
        config = read(f"{server.http_url}/v2/models/echo/config")
        # Requests share calls, but not a batch axis.
        assert (config["max_batch_size"], config["input"][1]["dims"]) == (0, [2])
        with grpc.insecure_channel(str(server.grpc_address)) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            metadata_message = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="echo"))
        assert [(one.name, one.datatype, list(one.shape)) for one in metadata_message.inputs] == [
            ("x", "FP32", [-1]),
            ("y", "INT64", [2]),
        ]
        # Undeclared tensors are accepted.
        assert client.infer("echo", {"z": np.array([1.5])})["z"].tolist() == [1.5]


def test_other_formats_use_the_returned_tensors() -> None:
    model = Model(echo, inputs=TENSORS, outputs=TENSORS)
    tensor = {"name": "z", "datatype": "FP64", "shape": [1], "data": [1.5]}
    with Server(model, http="127.0.0.1:0", grpc=None) as server:
        for members in ({}, {"outputs": [{"name": "z"}]}):
            body = json.dumps({"inputs": [tensor], **members}).encode()
            request = urllib.request.Request(
                f"{server.http_url}/v2/models/echo/infer", data=body, headers={"Accept": "application/x-npy"}
            )
            with urllib.request.urlopen(request) as response:
                assert np.load(io.BytesIO(response.read())).tolist() == [1.5]


def test_duplicate_tensor_names_are_rejected() -> None:
    with pytest.raises(SignatureError, match="declared twice"):
        Model(echo, inputs=[TENSORS[0], TENSORS[0]])
