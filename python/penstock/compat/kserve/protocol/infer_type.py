"""Requests, responses and their tensors: KServe's `infer_type`."""

from __future__ import annotations

from penstock.compat.kserve.protocol._bytes_elements import deserialize_bytes_tensor, serialize_byte_tensor
from penstock.compat.kserve.protocol._grpc import get_content
from penstock.compat.kserve.protocol._inputs_outputs import InferInput, InferOutput, RequestedOutput
from penstock.compat.kserve.protocol._parameters import to_grpc_parameters, to_http_parameters
from penstock.compat.kserve.protocol._request import InferRequest
from penstock.compat.kserve.protocol._response import InferResponse

__all__ = [
    "InferInput",
    "InferOutput",
    "InferRequest",
    "InferResponse",
    "RequestedOutput",
    "deserialize_bytes_tensor",
    "get_content",
    "serialize_byte_tensor",
    "to_grpc_parameters",
    "to_http_parameters",
]
