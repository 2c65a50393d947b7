"""Responses: a model's results as V1, V2, gRPC and CloudEvent responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import Response
from penstock.compat.kserve._request import cloud_events
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _json
from penstock.compat.kserve.protocol._grpc_bytes import response_bytes
from penstock.compat.kserve.protocol._parameters import to_http_parameters
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferResponse

if TYPE_CHECKING:
    from penstock import Request

__all__ = ["chunk_response", "end_to_end_headers", "is_stream", "join_chunks", "rows_response", "tensors_response"]

_JSON_LENGTH = "inference-header-content-length"
_HOP_HEADERS = frozenset(
    (
        *("connection", "content-length", "date", "keep-alive", "proxy-authenticate", "proxy-connection", "server"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers of one connection or message: those of a predictor's response do not fit this one."""


def is_stream(result: Any) -> bool:
    """Returns whether a result is an async iterator of chunks."""
    return type(result) is not dict and hasattr(type(result), "__aiter__")


def rows_response(
    model: str, result: Any, model_headers: Mapping[str, str], event: dict[str, Any] | None, request_headers: Any
) -> Response:
    """Returns the response to a V1 request.

    Args:
        model: The model's name.
        result: The model's result.
        model_headers: The response headers that the model set.
        event: The attributes of the request's CloudEvent, if it is one.
        request_headers: The request's headers.
    """
    length = None
    if isinstance(result, InferResponse):
        result, length = _rest(result)
    if event is not None:
        event_headers, body = cloud_events.response_event(
            model, result, event, binary=cloud_events.is_binary(request_headers)
        )
        return Response(body, headers={**end_to_end_headers(model_headers), **event_headers})
    headers = end_to_end_headers(model_headers) if model_headers else None
    if type(result) is not dict and isinstance(result, (bytes, str)):
        if length is not None:
            headers = {**(headers or {}), _JSON_LENGTH: str(length)}
        return Response(result, headers=headers)
    media = "application/json"
    if headers and "content-type" in headers:
        media = headers.pop("content-type")
    return Response(_json.dumps(result), headers=headers, content_type=media)


def tensors_response(
    model: str, request: Request, result: Any, model_headers: Mapping[str, str], request_headers: dict[str, str]
) -> Response:
    """Returns the response to a V2 request, over HTTP or gRPC.

    Args:
        model: The model's name.
        request: The request.
        result: The model's result.
        model_headers: The response headers that the model set.
        request_headers: The request's headers.

    Raises:
        InvalidInput: an output has no data, or a datatype that does not fit them.
        TypeError: the protocol cannot express the result.
    """
    headers = end_to_end_headers(model_headers, without="content-type") if model_headers else None
    over_grpc = request.protocol == "grpc"
    if not isinstance(result, InferResponse):
        if isinstance(result, bytes) and not over_grpc:
            return Response(result, headers=headers)
        if over_grpc and hasattr(result, "raw_output_contents"):
            return _grpc_message(result.SerializeToString(), headers)
        result = _infer_response(result)
    if over_grpc:
        if not request.binary or _exceeds_arrays(model, result):
            return _grpc_message(response_bytes(_completed(model, request, result)), headers)
    elif "ce-specversion" in request_headers and cloud_events.is_binary(request_headers):
        event_headers, body = cloud_events.response_event(model, _rest(result)[0], {}, binary=True)
        return Response(body, headers={**(headers or {}), **event_headers})
    elif not request.binary and _exceeds_arrays(model, result):
        body, length = _rest(_completed(model, request, result))
        if length is None:
            return Response(_json.dumps(body), headers=headers, content_type="application/json")
    outputs = {output.name: output._outgoing() for output in result.outputs}
    parameters = to_http_parameters(result.parameters) if result.parameters else None
    own_id = result.id if result.id and result.id != request.id else None
    return Response(outputs=outputs, parameters=parameters, headers=headers, id=own_id)


def _exceeds_arrays(model: str, result: InferResponse) -> bool:
    """Returns whether a response holds more than arrays express: another model, a version, output parameters."""
    if result.model_version not in _PLAIN_VERSIONS or result.model_name not in ("", model):
        return True
    return any(output.parameters and output.parameters.keys() - _PLAIN_PARAMETERS for output in result.outputs)


def _completed(model: str, request: Request, result: InferResponse) -> InferResponse:
    """Returns a response with the requested outputs, and with the request's id and model if it has none.

    Raises:
        InvalidInput: a requested output does not exist.
    """
    outputs = result.outputs
    if request.outputs is not None:
        named = {output.name: output for output in reversed(outputs)}
        for name in request.outputs:
            if name not in named:
                raise InvalidInput(f"Unexpected inference output '{name}' for model '{model}'")
        outputs = [named[name] for name in request.outputs]
    return InferResponse(
        result.id or request.id,
        result.model_name or model,
        outputs,
        result.model_version,
        parameters=result.parameters,
        use_binary_outputs=result._use_binary_outputs and request.protocol == "grpc",
    )


def _grpc_message(message: bytes, headers: dict[str, str] | None) -> Response:
    """Returns an encoded gRPC message as the response."""
    return Response(message, headers=headers, content_type="application/grpc")


def chunk_response(model: str, request: Request, chunk: Any) -> Response:
    """Returns the response for one chunk: text and bytes unchanged; tensors over V2 and gRPC as a whole response."""
    if request.route is not None:
        return Response(chunk if isinstance(chunk, str) else _chunk_bytes(chunk))
    if isinstance(chunk, (bytes, str)):
        return Response(outputs={"output-0": [chunk]})
    return tensors_response(model, request, chunk, {}, {})


def join_chunks(request: Request, chunks: list[Any]) -> Any:
    """Returns the chunks of a streamed result as one result, for a response that cannot be streamed."""
    if request.route is None:
        if len(chunks) == 1 and not isinstance(chunks[0], (bytes, str)):
            return chunks[0]
        if chunks and all(isinstance(chunk, (bytes, str)) for chunk in chunks):
            text = b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks)
            return InferResponse("", "", [InferOutput("output-0", [1], "BYTES", [text])])
        raise TypeError(f"the model answered with {len(chunks)} pieces where one is expected: call it as a stream")
    return b"".join(chunk.encode() if isinstance(chunk, str) else _chunk_bytes(chunk) for chunk in chunks)


def _chunk_bytes(chunk: Any) -> bytes:
    if isinstance(chunk, InferResponse):
        chunk, _ = _rest(chunk)
    return chunk if isinstance(chunk, bytes) else _json.dumps(chunk) + b"\n"


def end_to_end_headers(headers: Mapping[str, Any], without: str = "") -> dict[str, str]:
    """Returns headers in lower case, without those of a single connection or message, and without `without`."""
    return {
        name: str(value)
        for name, value in ((str(name).lower(), value) for name, value in headers.items())
        if name not in _HOP_HEADERS and name != without
    }


def _rest(response: InferResponse) -> tuple[Any, int | None]:
    """Returns a V2 REST body: a dict and None; or bytes and the length of their JSON part."""
    body = response.to_rest()
    if isinstance(body, tuple):
        content, length = body
        return content, length
    return body, None


_PLAIN_VERSIONS = (None, "", "1")
_PLAIN_PARAMETERS = {"binary_data_size"}


def _infer_response(result: Any) -> InferResponse:
    """Returns a dict or a gRPC message as an `InferResponse`."""
    if hasattr(result, "raw_output_contents"):
        response: InferResponse = InferResponse.from_grpc(result)
        return response
    if not isinstance(result, dict):
        raise TypeError(
            f"the model answered a V2 request with {_article(result)}, expected an InferResponse or a dict with outputs"
        )
    outputs = result.get("outputs")
    if not isinstance(outputs, Iterable):
        raise TypeError(f"the model answered a V2 request with a dict of {sorted(map(str, result))}, expected outputs")
    return InferResponse(
        result.get("id"),
        result.get("model_name", ""),
        [
            InferOutput(one["name"], list(one["shape"]), one["datatype"], one["data"], one.get("parameters"))
            for one in outputs
        ],
        model_version=result.get("model_version"),
        parameters=result.get("parameters"),
    )


def _article(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
