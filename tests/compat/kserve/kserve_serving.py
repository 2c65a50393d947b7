"""KServe models on a running server, and requests without KServe's clients."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import requests
from tritonclient.grpc import service_pb2, service_pb2_grpc

from penstock import Server
from waiting import PATIENCE

CODES = grpc.StatusCode
ROW = np.array([[1, 2]], np.float32)


@dataclass
class RunningServer:
    """A running server and its addresses."""

    server: Server
    http: str
    grpc: str

    def post(self, path: str, body: Any = None, /, **headers: str) -> requests.Response:
        """Posts a body: a dict or list as JSON, bytes unchanged. Underscores in header names become dashes."""
        sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent_headers.setdefault("content-type", "application/json")
        return requests.post(f"{self.http}{path}", data=body, headers=sent_headers, timeout=PATIENCE)

    def predict(self, body: Any = None, /, model: str = "m", **headers: str) -> requests.Response:
        """Sends a V1 prediction."""
        return self.post(f"/v1/models/{model}:predict", body, **headers)

    def infer(self, body: Any = None, /, model: str = "m", **headers: str) -> requests.Response:
        """Sends a V2 inference; by default of one row of floats."""
        return self.post(f"/v2/models/{model}/infer", request_of(x=ROW) if body is None else body, **headers)

    def call(self, model: str = "m", metadata: Any = (), **tensors: Any) -> Any:
        """Sends a V2 inference over gRPC with raw contents.

        Raises:
            grpc.RpcError: it was refused.
        """
        return self.send(message_of(model, **(tensors or {"x": ROW})), metadata)

    def send(self, message: Any, metadata: Any = ()) -> Any:
        """Sends a gRPC request."""
        with grpc.insecure_channel(self.grpc) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            return stub.ModelInfer(message, metadata=metadata, timeout=PATIENCE)

    def grpc_error(self, model: str = "m", metadata: Any = (), **tensors: Any) -> tuple[Any, str]:
        """Returns code and text of a gRPC error."""
        try:
            response = self.call(model, metadata, **tensors)
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError(f"expected an error, got {response}")


@contextmanager
def serving(*models: Any, options: Any = None, **config: Any) -> Iterator[RunningServer]:
    """Serves models until the block ends."""
    from penstock.compat.kserve._request.bind import bind

    with Server(
        *(bind(model, options) for model in models),
        http="127.0.0.1:0",
        grpc="127.0.0.1:0",
        **{"dialect": "kserve", **config},
    ) as server:
        assert server.http_url is not None
        assert server.grpc_address is not None
        yield RunningServer(server, server.http_url, server.grpc_address)


def request_of(**tensors: Any) -> dict[str, Any]:
    """Returns a V2 request in JSON."""
    names = {"f": "FP", "i": "INT", "u": "UINT", "b": "BOOL", "O": "BYTES", "U": "BYTES"}
    inputs = []
    for name, array in tensors.items():
        kind, bits = array.dtype.kind, array.dtype.itemsize * 8
        datatype = names[kind] + (str(bits) if kind in "fiu" else "")
        inputs.append({"name": name, "shape": array.shape, "datatype": datatype, "data": array.ravel().tolist()})
    return {"id": "r1", "inputs": inputs}


def message_of(model: str = "m", **tensors: Any) -> Any:
    """Returns a gRPC request with raw contents."""
    message = service_pb2.ModelInferRequest(model_name=model, id="r1")
    for one in request_of(**tensors)["inputs"]:
        message.inputs.add(name=one["name"], datatype=one["datatype"], shape=one["shape"])
        message.raw_input_contents.append(tensors[one["name"]].tobytes())
    return message


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Collects a logger's lines."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger(name), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
