"""Request bodies as the arguments of KServe's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve._request import cloud_events
from penstock.compat.kserve.protocol import _json
from penstock.compat.kserve.protocol._arrays import Shown
from penstock.compat.kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput, to_grpc_parameters

if TYPE_CHECKING:
    from penstock import Request

__all__ = ["read_rows", "read_tensors"]

_SHOWN = {
    (False, False): Shown.JSON,
    (False, True): Shown.LIST,
    (True, False): Shown.TYPED,
    (True, True): Shown.RAW,
}
"""The form of tensors, by (over gRPC, raw bytes)."""
_JSON_TYPES = {"application/json", cloud_events.STRUCTURED, "application/ld+json"}
_OCTETS = "application/octet-stream"
"""Read as JSON since KServe 0.14."""


def read_rows(request: Request, headers: dict[str, str], *, exact: bool) -> tuple[Any, dict[str, Any] | None]:
    """Returns the body of a V1 request: a JSON value, or bytes of another content type.

    Args:
        request: The request.
        headers: Its headers.
        exact: Whether content types are compared exactly, as KServe does.

    Returns:
        The body, and the attributes of its CloudEvent; None for them without an event.

    Raises:
        InvalidInput: the content type is JSON, and the body is not.
    """
    if "ce-specversion" in headers and cloud_events.is_binary(headers):
        return cloud_events.read_binary(headers, request.body)
    media = headers.get("content-type")
    if media is not None and media != "application/json" and not _is_json(media, exact=exact):
        return request.body, None
    value = _json.loads_request(request.body)
    event = cloud_events.read_structured(value)
    if media is None or not is_event(media):
        return value if event is None else event[0], None
    return event or (value, {})


def is_event(media: str) -> bool:
    """Returns whether a content type is that of a structured CloudEvent."""
    return media.partition(";")[0].strip().lower() == cloud_events.STRUCTURED


def read_tensors(request: Request, model: str) -> InferRequest:
    """Returns a V2 request, over HTTP or gRPC, as an `InferRequest`."""
    over_grpc, datatypes = request.protocol == "grpc", request.datatypes
    shown = _SHOWN[over_grpc, request.binary]
    tensor_parameters: Mapping[str, Any] = request.tensor_parameters
    nested = request.nested
    inputs = [
        InferInput._holding(
            name, datatypes[name], array, tensor_parameters.get(name) or None, Shown.NESTED if name in nested else shown
        )
        for name, array in request.tensors.items()
    ]
    infer_request = InferRequest(model, inputs, request.id or ("" if over_grpc else None), from_grpc=over_grpc)
    parameters = request.parameters
    if over_grpc:
        infer_request._use_raw_outputs = request.binary
        infer_request.parameters = to_grpc_parameters(parameters) if parameters else {}
    else:
        infer_request.parameters = parameters or None
    if request.outputs is not None:
        infer_request.request_outputs = [RequestedOutput(name) for name in request.outputs]
    return infer_request


def _is_json(media: str, *, exact: bool) -> bool:
    if exact:
        return media in _JSON_TYPES or (media == _OCTETS and not dialect.is_old())
    plain = media.partition(";")[0].strip().lower()
    return plain in _JSON_TYPES or plain.endswith("+json") or (plain == _OCTETS and not dialect.is_old())
