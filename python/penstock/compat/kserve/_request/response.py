"""What a model answered, made into what is sent."""

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
        own, body = cloud_events.answer(model, result, event, binary=cloud_events.is_binary(asked))
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
    over_grpc = request.protocol == "grpc"
    if not isinstance(result, InferResponse):
        if isinstance(result, bytes) and not over_grpc:
            return Response(result, headers=headers)
        if over_grpc and hasattr(result, "raw_output_contents"):
            return _message(result.SerializeToString(), headers)
        result = _response(result)
    if over_grpc:
        if not request.binary or _says_more(model, result):
            return _message(response_bytes(_answering(model, request, result)), headers)
    elif "ce-specversion" in asked and cloud_events.is_binary(asked):
        more, body = cloud_events.answer(model, _rest(result)[0], {}, binary=True)
        return Response(body, headers={**(headers or {}), **more})
    elif not request.binary and _says_more(model, result):
        body, length = _rest(_answering(model, request, result))
        if length is None:
            return Response(_json.dumps(body), headers=headers, content_type="application/json")
    outputs = {output.name: output._outgoing() for output in result.outputs}
    parameters = to_http_parameters(result.parameters) if result.parameters else None
    own_id = result.id if result.id and result.id != request.id else None
    return Response(outputs=outputs, parameters=parameters, headers=headers, id=own_id)


def _says_more(model: str, result: InferResponse) -> bool:
    """Whether an answer says more than one in arrays can: who it is of, or parameters of outputs."""
    if result.model_version not in _PLAIN_VERSIONS or result.model_name not in ("", model):
        return True
    return any(output.parameters and output.parameters.keys() - _PLAIN_PARAMETERS for output in result.outputs)


def _answering(model: str, request: Request, result: InferResponse) -> InferResponse:
    """An answer with the request's id if it has none, and with the outputs that are asked for.

    Raises:
        InvalidInput: there is no such output.
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


def _message(message: bytes, headers: dict[str, str] | None) -> Response:
    """A message of gRPC as it is."""
    return Response(message, headers=headers, content_type="application/grpc")


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


_PLAIN_VERSIONS = (None, "", "1")
_PLAIN_PARAMETERS = {"binary_data_size"}


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
        model_version=result.get("model_version"),
        parameters=result.get("parameters"),
    )


def _article(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
