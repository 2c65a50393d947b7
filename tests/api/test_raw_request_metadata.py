"""What a model of open requests says of its inputs and outputs, which is shown and not checked."""

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
SHOWN = [{"name": "x", "datatype": "FP32", "shape": [-1]}, {"name": "y", "datatype": "INT64", "shape": [2]}]


def echo(request: Request) -> dict[str, object]:
    """Gives back what it is sent."""
    return dict(request.tensors)


def echoes(requests: list[Request]) -> list[dict[str, object]]:
    """Gives back what each of them sends."""
    return [dict(request.tensors) for request in requests]


def read(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(("handler", "batching"), [(echo, None), (echoes, Batching(max_size=8))])
def test_it_is_shown_as_it_is_declared(handler: Any, batching: Batching | None) -> None:
    model = Model(handler, name="echo", inputs=TENSORS, outputs=TENSORS, batching=batching)
    assert model.open
    with Server(model, http="127.0.0.1:0", grpc="127.0.0.1:0") as server, Client(server.http_url) as client:
        metadata = read(f"{server.http_url}/v2/models/echo")
        assert (metadata["inputs"], metadata["outputs"]) == (SHOWN, SHOWN)
        config = read(f"{server.http_url}/v2/models/echo/config")
        # Requests share calls, and no axis.
        assert (config["max_batch_size"], config["input"][1]["dims"]) == (0, [2])
        with grpc.insecure_channel(str(server.grpc_address)) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            told = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="echo"))
        assert [(one.name, one.datatype, list(one.shape)) for one in told.inputs] == [
            ("x", "FP32", [-1]),
            ("y", "INT64", [2]),
        ]
        # Nothing checks it.
        assert client.infer("echo", {"z": np.array([1.5])})["z"].tolist() == [1.5]


def test_answers_in_other_formats_are_of_what_is_answered() -> None:
    model = Model(echo, inputs=TENSORS, outputs=TENSORS)
    tensor = {"name": "z", "datatype": "FP64", "shape": [1], "data": [1.5]}
    with Server(model, http="127.0.0.1:0", grpc=None) as server:
        for asked in ({}, {"outputs": [{"name": "z"}]}):
            body = json.dumps({"inputs": [tensor], **asked}).encode()
            request = urllib.request.Request(
                f"{server.http_url}/v2/models/echo/infer", data=body, headers={"Accept": "application/x-npy"}
            )
            with urllib.request.urlopen(request) as answer:
                assert np.load(io.BytesIO(answer.read())).tolist() == [1.5]


def test_it_is_tensors_of_different_names() -> None:
    with pytest.raises(SignatureError, match="declared twice"):
        Model(echo, inputs=[TENSORS[0], TENSORS[0]])
