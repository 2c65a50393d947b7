"""What a model answered, made into what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import Response
from penstock.compat.kserve import _events, _json
from penstock.compat.kserve.protocol._parameters import to_http_parameters
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferResponse

if TYPE_CHECKING:
    from penstock import Request

__all__ = ["is_pieces", "one_of", "piece_of", "rows_answer", "sent_headers", "tensors_answer"]

_JSON_LENGTH = "inference-header-content-length"
_NOT_SENT = frozenset(
    (
        *("connection", "content-length", "date", "keep-alive", "proxy-authenticate", "proxy-connection", "server"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Headers that are about one connection or message: of a predictor's answer they would be wrong here."""


def is_pieces(result: Any) -> bool:
    """Whether a model answers in pieces, which are to be awaited."""
    return type(result) is not dict and hasattr(type(result), "__aiter__")


def rows_answer(model: str, result: Any, told: Mapping[str, str], event: dict[str, Any] | None, asked: Any) -> Response:
    """The answer to a V1 request.

    Args:
        model: The model's name.
        result: What the model answered.
        told: The headers that it wants.
        event: The attributes of the event that it answers, if it answers one.
        asked: The headers of the request.
    """
    length = None
    if isinstance(result, InferResponse):
        result, length = _rest(result)
    if event is not None:
        own, body = _events.answer(model, result, event, binary=_events.is_binary(asked))
        return Response(body, headers={**sent_headers(told), **own})
    headers = sent_headers(told) if told else None
    if type(result) is not dict and isinstance(result, (bytes, str)):
        if length is not None:
            headers = {**(headers or {}), _JSON_LENGTH: str(length)}
        return Response(result, headers=headers)
    media = "application/json"
    if headers and "content-type" in headers:
        media = headers.pop("content-type")
    return Response(_json.dumps(result), headers=headers, content_type=media)


def tensors_answer(
    model: str, request: Request, result: Any, told: Mapping[str, str], asked: dict[str, str]
) -> Response:
    """The answer to a V2 request, over HTTP or gRPC.

    Args:
        model: The model's name.
        request: The request.
        result: What the model answered.
        told: The headers that it wants.
        asked: The headers of the request.

    Raises:
        InvalidInput: an output has no data, or a datatype that does not fit them.
        TypeError: it is nothing that the protocol has a form for.
    """
    headers = sent_headers(told, without="content-type") if told else None
    if not isinstance(result, InferResponse):
        if isinstance(result, bytes) and request.protocol == "http":
            return Response(result, headers=headers)
        result = _response(result)
    if "ce-specversion" in asked and request.protocol == "http" and _events.is_binary(asked):
        more, body = _events.answer(model, _rest(result)[0], {}, binary=True)
        return Response(body, headers={**(headers or {}), **more})
    outputs = {output.name: output._outgoing() for output in result.outputs}
    parameters = to_http_parameters(result.parameters) if result.parameters else None
    return Response(outputs=outputs, parameters=parameters, headers=headers)


def piece_of(model: str, request: Request, piece: Any) -> Response:
    """One piece of a stream: text and bytes as they are; of tensors over V2 and gRPC an answer of its own."""
    if request.route is not None:
        return Response(piece if isinstance(piece, str) else _bytes_of(piece))
    if isinstance(piece, (bytes, str)):
        return Response(outputs={"output-0": [piece]})
    return tensors_answer(model, request, piece, {}, {})


def one_of(request: Request, pieces: list[Any]) -> Any:
    """The pieces of an answer that cannot be sent one by one, as one."""
    if request.route is None:
        if len(pieces) == 1 and not isinstance(pieces[0], (bytes, str)):
            return pieces[0]
        if pieces and all(isinstance(piece, (bytes, str)) for piece in pieces):
            text = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
            return InferResponse("", "", [InferOutput("output-0", [1], "BYTES", [text])])
        raise TypeError(f"the model answered with {len(pieces)} pieces where one is expected: call it as a stream")
    return b"".join(piece.encode() if isinstance(piece, str) else _bytes_of(piece) for piece in pieces)


def _bytes_of(piece: Any) -> bytes:
    if isinstance(piece, InferResponse):
        piece, _ = _rest(piece)
    return piece if isinstance(piece, bytes) else _json.dumps(piece) + b"\n"


def sent_headers(told: Mapping[str, Any], without: str = "") -> dict[str, str]:
    """The headers of a model's own, without those that are about a connection or message."""
    return {
        name: str(value)
        for name, value in ((str(name).lower(), value) for name, value in told.items())
        if name not in _NOT_SENT and name != without
    }


def _rest(response: InferResponse) -> tuple[Any, int | None]:
    """An answer in the form of V2 REST: a dict; or bytes, and how many of them are JSON."""
    made = response.to_rest()
    if isinstance(made, tuple):
        body, length = made
        return body, length
    return made, None


def _response(result: Any) -> InferResponse:
    """A dict, or a message of gRPC, as a response."""
    if hasattr(result, "raw_output_contents"):
        made: InferResponse = InferResponse.from_grpc(result)
        return made
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
        parameters=result.get("parameters"),
    )


def _article(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
