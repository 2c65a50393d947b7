"""Requests and responses as gRPC's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.compat.kserve.constants.constants import GRPC_CONTENT_DATATYPE_MAPPINGS
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown, raw_bytes
from penstock.compat.kserve.protocol._parameters import to_grpc_parameters
from penstock.compat.kserve.protocol._rest_body import leaves, listed
from penstock.compat.kserve.protocol._tensor import InferTensor

if TYPE_CHECKING:
    from penstock.compat.kserve.protocol._request import InferRequest
    from penstock.compat.kserve.protocol._response import InferResponse

__all__ = ["all_raw", "get_content", "request", "response", "tensor", "wants_raw"]


def get_content(datatype: str, data: Any) -> list[Any]:
    """The elements of an `InferTensorContents`; none for FP16, which travels raw.

    Raises:
        InvalidInput: there is no such datatype.
    """
    if datatype == "FP16":
        return []
    field = GRPC_CONTENT_DATATYPE_MAPPINGS.get(datatype)
    if field is None:
        raise InvalidInput("invalid content type")
    return list(getattr(data, field))


def tensor(message: Any) -> tuple[str, list[int], str, list[Any]]:
    """Name, shape, datatype and elements of a tensor's message."""
    return message.name, list(message.shape), message.datatype, get_content(message.datatype, message.contents)


def request(asked: InferRequest) -> Any:
    """A `ModelInferRequest`."""
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferRequest

    heads, raws = _tensors(asked.inputs, False, ("input data is not a List", "invalid input datatype"))
    wanted = [
        {"name": one.name, "parameters": to_grpc_parameters(one.parameters) if one.parameters else None}
        for one in asked.request_outputs or ()
    ]
    return ModelInferRequest(
        id=asked.id,
        model_name=asked.model_name,
        model_version=asked.model_version,
        inputs=heads,
        raw_input_contents=raws,
        parameters=to_grpc_parameters(asked.parameters) if asked.parameters else None,
        outputs=wanted or None,
    )


def response(told: InferResponse) -> Any:
    """A `ModelInferResponse`. One output that has no typed contents makes all of them raw."""
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferResponse

    heads, raws = _tensors(
        told.outputs, wants_raw(told), ("output data is not a List", "to_grpc: invalid output datatype")
    )
    return ModelInferResponse(
        id=told.id,
        model_name=told.model_name,
        model_version=told.model_version,
        outputs=heads,
        raw_output_contents=raws,
        parameters=to_grpc_parameters(told.parameters) if told.parameters else None,
    )


def _tensors(tensors: list[Any], wanted: bool, mistakes: tuple[str, str]) -> tuple[list[dict[str, Any]], list[bytes]]:
    heads, raws = [], []
    as_raw = all_raw(tensors, wanted)
    for one in tensors:
        said: dict[str, Any] = {"name": one.name, "shape": one.shape, "datatype": one.datatype}
        parameters = to_grpc_parameters(one.parameters) if one.parameters else {}
        if as_raw:
            raw = one._raw_data
            if raw is None:
                raw = _raw(one, mistakes[0])
                parameters.update(to_grpc_parameters({"binary_data_size": len(raw)}))
            raws.append(bytes(raw))
        else:
            said["contents"] = _contents(one, mistakes)
        if parameters:
            said["parameters"] = parameters
        heads.append(said)
    return heads, raws


def wants_raw(told: InferResponse) -> bool:
    """Whether a response says that its outputs travel as raw bytes; one of FP16 makes it say so."""
    return bool(told._use_binary_outputs) or any(one.datatype == "FP16" for one in told.outputs)


def all_raw(tensors: list[Any], wanted: bool) -> bool:
    """Whether tensors travel as raw bytes: the protocol has them for all or for none."""
    return wanted or any(_is_raw(one) for one in tensors)


def _is_raw(one: InferTensor) -> bool:
    if one._array is not None:
        return one._shown >= Shown.RAW or one.datatype == "FP16"
    return one._raw is not None or isinstance(one._value, np.ndarray)


def _raw(one: InferTensor, mistake: str) -> bytes:
    if one._array is None and not isinstance(one._value, (list, np.ndarray)):
        raise InvalidInput(mistake)
    return raw_bytes(one._outgoing(), one.datatype)


def _contents(one: InferTensor, mistakes: tuple[str, str]) -> dict[str, list[Any]]:
    data = one.data if one._array is None else listed(one)
    if not isinstance(data, list):
        raise InvalidInput(mistakes[0])
    field = GRPC_CONTENT_DATATYPE_MAPPINGS.get(one.datatype)
    if field is None:
        raise InvalidInput(mistakes[1])
    return {field: [element.encode() if isinstance(element, str) else element for element in leaves(data)]}
