"""What a model is called with: a request in the form that KServe's scripts know."""

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

__all__ = ["rows_of", "tensors_of"]

_SHOWN = {
    (False, False): Shown.JSON,
    (False, True): Shown.LIST,
    (True, False): Shown.TYPED,
    (True, True): Shown.RAW,
}
"""How tensors look that came over gRPC or not, and in raw bytes or not."""
_JSON = {"application/json", cloud_events.STRUCTURED, "application/ld+json"}
_EXACT = "application/octet-stream"
"""KServe takes JSON for it since 0.14."""


def rows_of(request: Request, headers: dict[str, str], *, exact: bool) -> tuple[Any, dict[str, Any] | None]:
    """What a V1 request is about: a JSON value, or bytes of another content type.

    Args:
        request: The request.
        headers: Its headers.
        exact: Whether content types are compared letter by letter, as KServe does.

    Returns:
        It, and the attributes of the event that it came in, if it came in one.

    Raises:
        InvalidInput: it is no JSON where it says so.
    """
    if "ce-specversion" in headers and cloud_events.is_binary(headers):
        return cloud_events.of_headers(headers, request.body)
    media = headers.get("content-type")
    if media is not None and media != "application/json" and not _is_json(media, exact=exact):
        return request.body, None
    value = _json.loads_request(request.body)
    found = cloud_events.of_object(value)
    if media is None or not is_event(media):
        return value if found is None else found[0], None
    return found or (value, {})


def is_event(media: str) -> bool:
    """Whether a content type is that of an event in one JSON object."""
    return media.partition(";")[0].strip().lower() == cloud_events.STRUCTURED


def tensors_of(request: Request, model: str) -> InferRequest:
    """A V2 request, over HTTP or gRPC, as its model sees it."""
    over_grpc, datatypes = request.protocol == "grpc", request.datatypes
    shown = _SHOWN[over_grpc, request.binary]
    own: Mapping[str, Any] = request.tensor_parameters
    nested = request.nested
    inputs = [
        InferInput._holding(
            name, datatypes[name], array, own.get(name) or None, Shown.NESTED if name in nested else shown
        )
        for name, array in request.tensors.items()
    ]
    made = InferRequest(model, inputs, request.id or ("" if over_grpc else None), from_grpc=over_grpc)
    parameters = request.parameters
    if over_grpc:
        made._use_raw_outputs = request.binary
        made.parameters = to_grpc_parameters(parameters) if parameters else {}
    else:
        made.parameters = parameters or None
    if request.outputs is not None:
        made.request_outputs = [RequestedOutput(name) for name in request.outputs]
    return made


def _is_json(media: str, *, exact: bool) -> bool:
    if exact:
        return media in _JSON or (media == _EXACT and not dialect.is_old())
    plain = media.partition(";")[0].strip().lower()
    return plain in _JSON or plain.endswith("+json") or (plain == _EXACT and not dialect.is_old())
