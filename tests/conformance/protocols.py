"""The protocols: each sends the same `Call` in its encoding and returns an `InferResponse`."""

from __future__ import annotations

import json
from typing import Any, Protocol
from urllib.parse import quote

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from .content import Call, InferResponse, Tensor, pack
from .transports import Reply, Transport

CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}

TYPED_FIELDS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""FP16 and BF16 have no typed field: they are sent raw."""

UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class AnyProtocol(Protocol):
    """One way into the server."""

    name: str

    def infer(self, call: Call) -> InferResponse: ...


class HttpProtocol:
    """REST, with tensors in the JSON or behind it."""

    def __init__(self, name: str, transport: Transport, *, binary: bool) -> None:
        self.name, self.transport, self.binary = name, transport, binary

    def infer(self, call: Call) -> InferResponse:
        body, headers = self.encode(call)
        path = f"/v2/models/{quote(call.model)}" + (f"/versions/{quote(call.version)}" if call.version else "")
        return decode(self.transport.request("POST", f"{path}/infer", body, headers))

    def encode(self, call: Call) -> tuple[bytes, dict[str, str]]:
        """The body and headers of a request."""
        heads = [self.head(tensor) for tensor in call.inputs]
        parameters: dict[str, Any] = dict(call.parameters)
        document: dict[str, Any] = {"inputs": heads}
        if call.id:
            document["id"] = call.id
        if self.binary:
            parameters["binary_data_output"] = True
        if call.outputs is not None:
            document["outputs"] = [{"name": name} for name in call.outputs]
        if parameters:
            document["parameters"] = parameters
        text = json.dumps(document, ensure_ascii=False).encode()
        if not self.binary:
            return text, {"Content-Type": "application/json"}
        tail = b"".join(tensor.raw for tensor in call.inputs)
        return text + tail, {"Inference-Header-Content-Length": str(len(text))}

    def head(self, tensor: Tensor) -> dict[str, Any]:
        head: dict[str, Any] = {"name": tensor.name, "shape": list(tensor.shape), "datatype": tensor.datatype}
        if self.binary:
            return {**head, "parameters": {"binary_data_size": len(tensor.raw)}}
        values = tensor.values()
        return {**head, "data": [value.decode() if isinstance(value, bytes) else value for value in values]}


def decode(reply: Reply) -> InferResponse:
    """Decodes a response and checks its general rules."""
    if reply.status != 200:
        return InferResponse(reply.status, reply.refusal(reply.status))
    document, tail = reply.json(), reply.tail()
    kind = "application/octet-stream" if "inference-header-content-length" in reply.headers else "application/json"
    assert reply.headers["content-type"] == kind
    assert bool(tail) == (kind == "application/octet-stream"), "the length header and the binary tail must go together"
    assert None not in document.values()
    outputs = []
    for output in document["outputs"]:
        assert set(output) in ({"name", "datatype", "shape", "data"}, {"name", "datatype", "shape", "parameters"})
        if "data" in output:
            raw = pack(output["datatype"], output["data"])
        else:
            assert list(output["parameters"]) == ["binary_data_size"]
            size = output["parameters"]["binary_data_size"]
            raw, tail = tail[:size], tail[size:]
        outputs.append(Tensor(output["name"], output["datatype"], tuple(output["shape"]), raw))
    assert not tail, "bytes after the last output"
    return InferResponse(
        200,
        model=document["model_name"],
        version=document["model_version"],
        id=document.get("id", ""),
        parameters=document.get("parameters", {}),
        outputs=tuple(outputs),
    )


class GrpcProtocol:
    """gRPC through the messages of a real client, with raw or typed contents."""

    def __init__(self, name: str, target: str, *, typed: bool) -> None:
        self.name, self.typed = name, typed
        self.channel = grpc.insecure_channel(target, options=UNLIMITED)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def infer(self, call: Call) -> InferResponse:
        return self.send(self.message(call))

    def infer_within(self, call: Call, seconds: float) -> InferResponse:
        """Sends a call with a deadline."""
        return self.send(self.message(call), timeout=seconds)

    def send(self, message: pb.ModelInferRequest, **options: Any) -> InferResponse:
        """Sends a prepared message."""
        options.setdefault("timeout", 20)
        try:
            return read(self.stub.ModelInfer(message, **options))
        except grpc.RpcError as error:
            return InferResponse(CODES[error.code()], error.details())

    def message(self, call: Call) -> pb.ModelInferRequest:
        """The message of a call."""
        message = pb.ModelInferRequest(model_name=call.model, model_version=call.version, id=call.id)
        for name, value in call.parameters.items():
            message.parameters[name].CopyFrom(parameter(value))
        for name in call.outputs or ():
            message.outputs.add(name=name)
        for tensor in call.inputs:
            entry = message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            if not self.typed:
                message.raw_input_contents.append(tensor.raw)
            elif tensor.raw:
                getattr(entry.contents, TYPED_FIELDS[tensor.datatype]).extend(tensor.values())
        return message


def read(message: pb.ModelInferResponse) -> InferResponse:
    """Decodes a response and checks its general rules: all raw, one entry per output."""
    assert len(message.raw_output_contents) == len(message.outputs)
    outputs = []
    for entry, raw in zip(message.outputs, message.raw_output_contents, strict=True):
        assert not entry.HasField("contents")
        outputs.append(Tensor(entry.name, entry.datatype, tuple(entry.shape), raw))
    parameters = {
        name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in message.parameters.items()
    }
    return InferResponse(
        200,
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        parameters=parameters,
        outputs=tuple(outputs),
    )


def parameter(value: bool | int | float | str) -> pb.InferParameter:
    """A parameter in the field of its type; bool first, because a bool is an int to Python."""
    if isinstance(value, bool):
        return pb.InferParameter(bool_param=value)
    if isinstance(value, int):
        return pb.InferParameter(int64_param=value) if value < 2**63 else pb.InferParameter(uint64_param=value)
    return pb.InferParameter(double_param=value) if isinstance(value, float) else pb.InferParameter(string_param=value)


JSON = ("rest-json", "in-process-json")
BINARY = ("rest-binary", "in-process-binary")
GRPC = ("grpc-raw", "grpc-typed")
ALL = (*JSON, *BINARY, *GRPC)
UNTYPED = (*JSON, *BINARY, "grpc-raw")
"""All protocols except typed gRPC, which has no field for FP16 and BF16."""
FRAMED = (*BINARY, "grpc-raw")
"""Protocols that send tensors as raw bytes."""

on_all = pytest.mark.parametrize("protocol", ALL, indirect=True)
on_json = pytest.mark.parametrize("protocol", JSON, indirect=True)
on_framed = pytest.mark.parametrize("protocol", FRAMED, indirect=True)
on_grpc = pytest.mark.parametrize("protocol", GRPC, indirect=True)


def refused(response: InferResponse, status: int, *parts: str) -> None:
    """Checks a refusal: its status, and that its message has these parts."""
    assert response.status == status, f"{response.status}: {response.message or response.outputs}"
    for part in parts:
        assert part in response.message, response.message


def served(response: InferResponse, *outputs: Tensor) -> InferResponse:
    """Checks for exactly these outputs, in this order."""
    assert response.status == 200, f"{response.status}: {response.message}"
    assert response.outputs == outputs
    return response


def assert_located(message: str, tensor: str) -> None:
    """Checks that the message locates the error: by the tensor's name, or by the byte in the JSON."""
    assert f"'{tensor}'" in message or "at byte" in message, message
