"""Conversions between requests or responses and gRPC messages."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from penstock.compat.kserve.constants.constants import GRPC_CONTENT_DATATYPE_MAPPINGS
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown, raw_bytes
from penstock.compat.kserve.protocol._parameters import to_grpc_parameters
from penstock.compat.kserve.protocol._rest_body import leaves, listed
from penstock.compat.kserve.protocol._tensor import InferTensor, Parameters

__all__ = ["all_raw", "get_content", "request", "response", "tensor", "wants_raw"]


class RequestFields(Protocol):
    """`InferRequest` as the encoder of its message sees it."""

    id: str | None
    model_name: str
    model_version: str | None
    parameters: Parameters
    inputs: list[Any]
    request_outputs: list[Any] | None


class ResponseFields(Protocol):
    """`InferResponse` as the encoder of its message sees it."""

    id: str | None
    model_name: str
    model_version: str | None
    parameters: Parameters
    outputs: list[Any]
    _use_binary_outputs: bool | None


def get_content(datatype: str, data: Any) -> list[Any]:
    """Returns the elements of an `InferTensorContents`; none for FP16, which travels raw.

    Raises:
        InvalidInput: the datatype is unknown.
    """
    if datatype == "FP16":
        return []
    field = GRPC_CONTENT_DATATYPE_MAPPINGS.get(datatype)
    if field is None:
        raise InvalidInput("invalid content type")
    return list(getattr(data, field))


def tensor(message: Any) -> tuple[str, list[int], str, list[Any]]:
    """Returns name, shape, datatype and elements of a tensor's message."""
    return message.name, list(message.shape), message.datatype, get_content(message.datatype, message.contents)


def request(infer_request: RequestFields) -> Any:
    """Returns the `ModelInferRequest` of a request."""
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferRequest

    heads, raws = _tensors(infer_request.inputs, False, ("input data is not a List", "invalid input datatype"))
    requested = [
        {"name": one.name, "parameters": to_grpc_parameters(one.parameters) if one.parameters else None}
        for one in infer_request.request_outputs or ()
    ]
    return ModelInferRequest(
        id=infer_request.id,
        model_name=infer_request.model_name,
        model_version=infer_request.model_version,
        inputs=heads,
        raw_input_contents=raws,
        parameters=to_grpc_parameters(infer_request.parameters) if infer_request.parameters else None,
        outputs=requested or None,
    )


def response(infer_response: ResponseFields) -> Any:
    """Returns the `ModelInferResponse` of a response. One output without typed contents makes all outputs raw."""
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferResponse

    heads, raws = _tensors(
        infer_response.outputs,
        wants_raw(infer_response),
        ("output data is not a List", "to_grpc: invalid output datatype"),
    )
    return ModelInferResponse(
        id=infer_response.id,
        model_name=infer_response.model_name,
        model_version=infer_response.model_version,
        outputs=heads,
        raw_output_contents=raws,
        parameters=to_grpc_parameters(infer_response.parameters) if infer_response.parameters else None,
    )


def _tensors(tensors: list[Any], raw_wanted: bool, errors: tuple[str, str]) -> tuple[list[dict[str, Any]], list[bytes]]:
    heads, raws = [], []
    as_raw = all_raw(tensors, raw_wanted)
    for one in tensors:
        head: dict[str, Any] = {"name": one.name, "shape": one.shape, "datatype": one.datatype}
        parameters = to_grpc_parameters(one.parameters) if one.parameters else {}
        if as_raw:
            raw = one._raw_data
            if raw is None:
                raw = _raw(one, errors[0])
                parameters.update(to_grpc_parameters({"binary_data_size": len(raw)}))
            raws.append(bytes(raw))
        else:
            head["contents"] = _contents(one, errors)
        if parameters:
            head["parameters"] = parameters
        heads.append(head)
    return heads, raws


def wants_raw(infer_response: ResponseFields) -> bool:
    """Returns whether a response's outputs travel as raw bytes: on request, or because one is FP16."""
    return bool(infer_response._use_binary_outputs) or any(one.datatype == "FP16" for one in infer_response.outputs)


def all_raw(tensors: list[Any], raw_wanted: bool) -> bool:
    """Returns whether tensors travel as raw bytes: the protocol has them for all tensors or for none."""
    return raw_wanted or any(_is_raw(one) for one in tensors)


def _is_raw(one: InferTensor) -> bool:
    if one._array is not None:
        return one._shown >= Shown.RAW or one.datatype == "FP16"
    return one._raw is not None or isinstance(one._value, np.ndarray)


def _raw(one: InferTensor, error: str) -> bytes:
    if one._array is None and not isinstance(one._value, (list, np.ndarray)):
        raise InvalidInput(error)
    return raw_bytes(one._outgoing(), one.datatype)


def _contents(one: InferTensor, errors: tuple[str, str]) -> dict[str, list[Any]]:
    data = one.data if one._array is None else listed(one)
    if not isinstance(data, list):
        raise InvalidInput(errors[0])
    field = GRPC_CONTENT_DATATYPE_MAPPINGS.get(one.datatype)
    if field is None:
        raise InvalidInput(errors[1])
    return {field: [element.encode() if isinstance(element, str) else element for element in leaves(data)]}
