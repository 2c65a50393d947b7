"""Encodings of requests, and vectors of them. Only Python's JSON and Google's protobuf write the bytes."""

from __future__ import annotations

import json
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from conformance.content import Call, Tensor
from conformance.protocols import TYPED_FIELDS, parameter

Document = dict[str, Any]
REFUSED = {"kind": "invalid_input", "status": 400, "code": 3}


def rest_json(document: Any, note: str = "", **more: Any) -> Document:
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {"wire": "rest-json", **({"note": note} if note else {}), "text": text, **more}


def rest_binary(document: Any, tail: bytes, note: str = "", **more: Any) -> Document:
    encoded = rest_json(document, note)
    length = len(encoded["text"].encode())
    return {**encoded, "wire": "rest-binary", "tail": tail.hex(), "json_length": length, **more}


def grpc(message: pb.ModelInferRequest, note: str = "") -> Document:
    raw = message.SerializeToString(deterministic=True)
    return {"wire": "grpc", **({"note": note} if note else {}), "message": raw.hex()}


def document_of(call: Call, *, is_binary: bool) -> Document:
    inputs = []
    for x in call.inputs:
        head: Document = {"name": x.name, "shape": list(x.shape), "datatype": x.datatype}
        values = [value.decode() if isinstance(value, bytes) else value for value in ([] if is_binary else x.values())]
        inputs.append({**head, **({"parameters": {"binary_data_size": len(x.raw)}} if is_binary else {"data": values})})
    parameters = {**call.parameters, **({"binary_data_output": True} if is_binary else {})}
    return {
        **({"id": call.id} if call.id else {}),
        **({"parameters": parameters} if parameters else {}),
        "inputs": inputs,
        **({"outputs": [{"name": name} for name in call.outputs]} if call.outputs is not None else {}),
    }


def message_of(call: Call, *, typed: bool) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=call.model, id=call.id)
    for name, value in call.parameters.items():
        message.parameters[name].CopyFrom(parameter(value))
    for x in call.inputs:
        entry = message.inputs.add(name=x.name, datatype=x.datatype, shape=x.shape)
        if typed and x.raw:
            getattr(entry.contents, TYPED_FIELDS[x.datatype]).extend(x.values())
        elif not typed:
            message.raw_input_contents.append(x.raw)
    for name in call.outputs or ():
        message.outputs.add(name=name)
    return message


def all_wires(call: Call) -> list[Document]:
    """Every plain encoding that can represent a call."""
    wires = [
        rest_json(document_of(call, is_binary=False)),
        rest_binary(document_of(call, is_binary=True), b"".join(x.raw for x in call.inputs)),
        grpc(message_of(call, typed=False), "raw"),
    ]
    if all(x.datatype in TYPED_FIELDS for x in call.inputs):
        wires.append(grpc(message_of(call, typed=True), "typed"))
    return wires


def tensor_document(x: Tensor) -> Document:
    return {"name": x.name, "datatype": x.datatype, "shape": list(x.shape), "hex": x.raw.hex()}


def accepted(
    name: str,
    call: Call,
    outputs: list[Tensor],
    wires: list[Document] | None = None,
    parameters: Document | None = None,
) -> Document:
    """Vector of an accepted request."""
    message = pb.ModelInferResponse(model_name=call.model, model_version="1", id=call.id)
    for key, value in (parameters or {}).items():
        message.parameters[key].CopyFrom(parameter(value))
    for x in outputs:
        message.outputs.add(name=x.name, datatype=x.datatype, shape=x.shape)
        message.raw_output_contents.append(x.raw)
    return {
        "name": name,
        "model": call.model,
        "wires": all_wires(call) if wires is None else wires,
        "request": {
            "id": call.id,
            "parameters": call.parameters,
            "inputs": [tensor_document(x) for x in call.inputs],
            "outputs": None if call.outputs is None else list(call.outputs),
        },
        "answer": {
            "parameters": parameters or {},
            "outputs": [tensor_document(x) for x in outputs],
            "grpc": message.SerializeToString(deterministic=True).hex(),
        },
    }


def refused(name: str, model: str, wires: list[Document], *message: str) -> Document:
    """Vector of a request that is refused as a client error."""
    return {"name": name, "model": model, "wires": wires, "refusal": {**REFUSED, "message": list(message)}}


def x_text(datatype: str, shape: str, data: str, more: str = "") -> str:
    return f'{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape}{more},"data":{data}}}]}}'
