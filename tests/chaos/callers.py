"""One client of each protocol, whose answers are compared with what it asked."""

from __future__ import annotations

import http.client
import json
import random
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import Connection, HttpResponse, binary_body, json_body, to_response
from penstock import Client

from .tally import RefusedError, Tally, WrongError

Array = np.ndarray[Any, Any]
LARGEST = 1 << 20
"""Numbers in the largest tensor: 4 MiB."""


def check(name: str, got: Array, expected: Array) -> None:
    if got.shape != expected.shape or not np.array_equal(got, expected):
        raise WrongError(f"{name}: {got.ravel()[:3]} of {got.shape} for {expected.ravel()[:3]} of {expected.shape}")


class Caller:
    """The connections of one thread, kept as long as they serve."""

    def __init__(self, url: str, target: str, tally: Tally, seed: int) -> None:
        self.http, self.tally, self.random = url, tally, random.Random(seed)
        self.connection = Connection(url)
        self.channel = grpc.insecure_channel(target, options=[("grpc.max_receive_message_length", -1)])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.client = Client(url, timeout=30)

    def close(self) -> None:
        self.connection.close()
        self.channel.close()
        self.client.close()

    def row(self, width: int) -> Array:
        """Numbers that tell the request that they belong to."""
        return (np.arange(width) % 977 + self.tally.number() % 100_000).astype(np.float32)

    def width(self, largest: int = LARGEST) -> int:
        """Mostly small, at times millions of bytes."""
        return min(largest, int(2 ** self.random.uniform(0, 8 if self.random.random() < 0.9 else 20)))

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> HttpResponse:
        """Asks over the kept connection, which an error ends."""
        try:
            try:
                answer = self.connection.send_request("POST", path, body, headers)
            except (BrokenPipeError, ConnectionResetError) as error:
                # Refused before the body was sent; as client libraries do, look for the answer all the same.
                try:
                    answer = to_response(self.connection.getresponse())
                except http.client.ResponseNotReady:
                    raise error from None
        except BaseException:
            self.connection.close()
            self.connection = Connection(self.http)
            raise
        if answer.headers.get("connection") == "close":
            self.connection.close()
        if answer.status != 200:
            raise RefusedError(answer.status, answer.error())
        return answer

    def infer(self, protocol: str, model: str, x: Array, **parameters: Any) -> Array:
        """An inference over one of the protocols; the output's array."""
        name = str(self.tally.number())
        if protocol == "json":
            body, headers = json_body({"x": x}, id=name, parameters=parameters), {}
        elif protocol == "binary":
            body, headers = binary_body({"x": x}, id=name, parameters={"binary_data_output": True, **parameters})
        elif protocol == "grpc":
            return self._grpc(model, name, x, parameters)
        else:
            result = self.client.infer(model, x=x, parameters=parameters or None, request_id=name)
            return np.asarray(result["y"])
        answer = self.post(f"/v2/models/{model}/infer", body, headers)
        document = answer.json()
        if document.get("id") != name:
            raise WrongError(f"the answer to {document.get('id')} came to {name}")
        output = document["outputs"][0]
        if protocol == "binary":
            return answer.array(output["name"])
        return np.array(output["data"], np.float32).reshape(output["shape"])

    def message(self, model: str, name: str, x: Array, parameters: dict[str, Any]) -> Any:
        request = pb.ModelInferRequest(model_name=model, id=name, raw_input_contents=[x.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=x.shape)
        for key, value in parameters.items():
            setattr(request.parameters[key], "bool_param" if isinstance(value, bool) else "int64_param", value)
        return request

    def _grpc(self, model: str, name: str, x: Array, parameters: dict[str, Any]) -> Array:
        answer = self.stub.ModelInfer(self.message(model, name, x, parameters), timeout=30)
        if answer.id != name:
            raise WrongError(f"the answer to {answer.id} came to {name}")
        return raw(answer)

    def many(self, model: str, rows: list[Array]) -> dict[str, Array]:
        """Several inferences over one ModelStreamInfer: exactly one answer to each, by its name."""
        names = [str(self.tally.number()) for _ in rows]
        requests = [self.message(model, name, x, {}) for name, x in zip(names, rows, strict=True)]
        answers: dict[str, Array] = {}
        for message in self.stub.ModelStreamInfer(iter(requests), timeout=30):
            if message.error_message:
                raise RefusedError(500, message.error_message)
            name = message.infer_response.id
            if name in answers or name not in names:
                raise WrongError(f"an answer to {name}, which was answered or never asked")
            answers[name] = raw(message.infer_response)
        if len(answers) != len(names):
            raise WrongError(f"{len(answers)} answers to {len(names)} requests on a stream")
        return {name: answers[name] for name in names}

    def pieces(self, start: int, count: int) -> list[int]:
        """The pieces of a stream of events; what is raised in its midst is a refusal after them."""
        answer = self.post("/v2/models/counts/generate_stream", json.dumps({"n": [start, count]}).encode())
        events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
        return [event.get("i", -1) for event in events]


def raw(answer: Any) -> Array:
    return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape)
