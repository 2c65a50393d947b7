"""Clients of every protocol, which check each response against its request."""

from __future__ import annotations

import http.client
import json
import random
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import HttpResponse, binary_body, json_body, to_response

from .access import Access
from .tally import RefusedError, Tally, WrongError

Array = np.ndarray[Any, Any]
LARGEST = 1 << 20
"""Numbers in the largest tensor: 4 MiB."""


def check(name: str, actual: Array, expected: Array) -> None:
    if actual.shape != expected.shape or not np.array_equal(actual, expected):
        raise WrongError(
            f"{name}: {actual.ravel()[:3]} of {actual.shape} for {expected.ravel()[:3]} of {expected.shape}"
        )


class ProtocolClient:
    """Connections of one thread over every protocol, reused until an error."""

    def __init__(self, access: Access, tally: Tally, seed: int) -> None:
        self.access, self.tally, self.random = access, tally, random.Random(seed)
        self.connection = access.connection()
        self.channel = access.channel()
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.native = access.native()

    def close(self) -> None:
        self.connection.close()
        self.channel.close()
        self.native.close()

    def row(self, width: int) -> Array:
        """Numbers that identify their request."""
        return (np.arange(width) % 977 + self.tally.number() % 100_000).astype(np.float32)

    def width(self, largest: int = LARGEST) -> int:
        """A random width: mostly small, at times millions of bytes."""
        return min(largest, int(2 ** self.random.uniform(0, 8 if self.random.random() < 0.9 else 20)))

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> HttpResponse:
        """Sends a POST over the open connection; an error closes it."""
        try:
            try:
                response = self.connection.send_request("POST", path, body, headers)
            except (BrokenPipeError, ConnectionResetError) as error:
                # Refused before the whole body was sent: read the response anyway, as client libraries do.
                try:
                    response = to_response(self.connection.getresponse())
                except http.client.ResponseNotReady:
                    raise error from None
        except BaseException:
            self.connection.close()
            self.connection = self.access.connection()
            raise
        if response.headers.get("connection") == "close":
            self.connection.close()
        if response.status != 200:
            raise RefusedError(response.status, response.error())
        return response

    def infer(self, protocol: str, model: str, x: Array, **parameters: Any) -> Array:
        """Infers over one of the protocols, and returns the output."""
        name = str(self.tally.number())
        if protocol == "json":
            body, headers = json_body({"x": x}, id=name, parameters=parameters), {}
        elif protocol == "binary":
            body, headers = binary_body({"x": x}, id=name, parameters={"binary_data_output": True, **parameters})
        elif protocol == "grpc":
            return self._grpc(model, name, x, parameters)
        else:
            result = self.native.infer(model, x=x, parameters=parameters or None, request_id=name)
            return np.asarray(result["y"])
        response = self.post(f"/v2/models/{model}/infer", body, headers)
        document = response.json()
        if document.get("id") != name:
            raise WrongError(f"request {name} got the response to {document.get('id')}")
        output = document["outputs"][0]
        if protocol == "binary":
            return response.array(output["name"])
        return np.array(output["data"], np.float32).reshape(output["shape"])

    def message(self, model: str, name: str, x: Array, parameters: dict[str, Any]) -> Any:
        request = pb.ModelInferRequest(model_name=model, id=name, raw_input_contents=[x.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=x.shape)
        for key, value in parameters.items():
            setattr(request.parameters[key], "bool_param" if isinstance(value, bool) else "int64_param", value)
        return request

    def _grpc(self, model: str, name: str, x: Array, parameters: dict[str, Any]) -> Array:
        response = self.stub.ModelInfer(self.message(model, name, x, parameters), timeout=30)
        if response.id != name:
            raise WrongError(f"request {name} got the response to {response.id}")
        return raw(response)

    def many(self, model: str, rows: list[Array]) -> dict[str, Array]:
        """Several inferences over one ModelStreamInfer, with exactly one response each, by id."""
        names = [str(self.tally.number()) for _ in rows]
        requests = [self.message(model, name, x, {}) for name, x in zip(names, rows, strict=True)]
        responses: dict[str, Array] = {}
        for message in self.stub.ModelStreamInfer(iter(requests), timeout=30):
            if message.error_message:
                raise RefusedError(500, message.error_message)
            name = message.infer_response.id
            if name in responses or name not in names:
                raise WrongError(f"a duplicate or unrequested response to {name}")
            responses[name] = raw(message.infer_response)
        if len(responses) != len(names):
            raise WrongError(f"{len(responses)} responses to {len(names)} requests on a stream")
        return {name: responses[name] for name in names}

    def chunks(self, start: int, count: int) -> list[int]:
        """Chunks of an event stream; an error within it is the chunk -1."""
        response = self.post("/v2/models/counts/generate_stream", json.dumps({"n": [start, count]}).encode())
        events = [json.loads(line[6:]) for line in response.body.decode().splitlines() if line.startswith("data: ")]
        return [event.get("i", -1) for event in events]


def raw(response: Any) -> Array:
    return np.frombuffer(response.raw_output_contents[0], np.float32).reshape(response.outputs[0].shape)
