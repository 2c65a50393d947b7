"""Conversion of a handler's return value to a response."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import HandlerError, InvalidInput, Response
from penstock.compat.openinference._request import InferenceRequest
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._tensors import DeclaredTensors, to_array

__all__ = ["to_response"]

_SERVER_HEADERS = {"content-length", "content-type", "connection", "date", "trailer", "transfer-encoding", "upgrade"}


def to_response(
    returned: Any, declared: DeclaredTensors, options: Options, protocol: str, request: InferenceRequest | None = None
) -> Response:
    """Returns the response of a dict, a response with body and status, a pair of status and body, or JSON.

    Raises:
        HandlerError: the value has another form, or does not match the declared outputs.
    """
    status, headers, body = 200, None, returned
    if type(returned) is dict:
        pass
    elif hasattr(returned, "status_code") and hasattr(returned, "body"):
        status, body = int(returned.status_code), returned.body
        headers = {str(name): str(value) for name, value in (returned.headers or {}).items()}
        headers = {name: value for name, value in headers.items() if name.lower() not in _SERVER_HEADERS}
    elif isinstance(returned, tuple):
        if len(returned) != 2 or isinstance(returned[0], bool) or not isinstance(returned[0], int):
            raise HandlerError("the handler returned a tuple that is not a pair of status and body")
        status, body = returned
    if not 200 <= status <= 599:
        raise HandlerError(f"the handler returned status {status}, expected one of 200 to 599")
    if status >= 400:
        return _error_response(status, headers, body)
    content = _parse_body(body)
    if "outputs" not in content:
        if "error" in content:
            return _error_response(500, headers, content)
        raise HandlerError("the handler returned an object without 'outputs'")
    outputs = _parse_outputs(content["outputs"], options, protocol)
    if options.validate == "on":
        declared.check_outputs(outputs)
    if options.nan == "error":
        _check_finite(outputs)
    response_id = content.get("id")
    if request is not None:
        # The server does this itself for requests that it parses.
        response_id = response_id or request.id
        outputs = _select_outputs(outputs, request)
    return Response(
        outputs=outputs,
        status=status,
        headers=headers,
        parameters=content.get("parameters") or {},
        id=None if not response_id else str(response_id),
    )


def _parse_body(body: Any) -> Mapping[str, Any]:
    if type(body) is dict:
        return body
    if isinstance(body, (str, bytes)):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise HandlerError(f"the handler returned a text that is not JSON: {error}") from None
    if isinstance(body, Mapping):
        return body
    hint = "; a request has one response" if isinstance(body, list) else ""
    raise HandlerError(f"the handler returned {type(body).__name__}, expected a dict with 'outputs'{hint}")


def _parse_outputs(given: Any, options: Options, protocol: str) -> dict[str, Any]:
    if type(given) is not list and isinstance(given, Mapping):
        given = [{"name": name, "data": data} for name, data in given.items()]
    if not isinstance(given, (list, tuple)):
        raise HandlerError(f"'outputs' is {type(given).__name__}, expected a list of tensors")
    found: dict[str, Any] = {}
    for index, tensor in enumerate(given):
        if not (type(tensor) is dict or isinstance(tensor, Mapping)) or "data" not in tensor:
            raise HandlerError(f"outputs[{index}] is not an object with name, datatype, shape and data")
        name = str(tensor.get("name") or f"output-{index}")
        if name in found:
            raise HandlerError(f"the handler returned output '{name}' twice")
        datatype = tensor.get("datatype") or tensor.get("data_type")
        datatype = "BYTES" if datatype == "STRING" else datatype
        data = tensor["data"]
        if options.bytes_mode == "digitalhub" and protocol == "grpc" and isinstance(data, str):
            data = _decode_base64(data, name)
        found[name] = to_array(data, datatype, tensor.get("shape"), name, repair=options.validate == "off")
    return found


def _check_finite(outputs: dict[str, Any]) -> None:
    for name, array in outputs.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise HandlerError(f"output '{name}' has NaN or infinities")


def _select_outputs(outputs: dict[str, Any], request: InferenceRequest) -> dict[str, Any]:
    """Returns the requested outputs."""
    names = [tensor.name for tensor in request.outputs] or [*outputs]
    for name in names:
        if name not in outputs:
            raise InvalidInput(f"there is no output '{name}', the response has {', '.join(outputs)}")
    return {name: outputs[name] for name in names}


def _decode_base64(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise HandlerError(f"output '{name}' is not base64, which bytes_mode digitalhub requires") from None


def _error_response(status: int, headers: Mapping[str, str] | None, body: Any) -> Response:
    """Returns an error response, whose body is always an object with `error`."""
    if isinstance(body, bytes):
        body = body.decode(errors="replace")
    if isinstance(body, str):
        with contextlib.suppress(ValueError):
            body = json.loads(body)
    if not isinstance(body, Mapping):
        body = {"error": "" if body is None else str(body)}
    if not isinstance(body.get("error"), str):
        response_id = body.get("error", body.get("message", body.get("detail", json.dumps(body, default=str))))
        body = {**body, "error": response_id if isinstance(response_id, str) else json.dumps(response_id, default=str)}
    content = json.dumps(body, default=str)
    return Response(content, status=status, headers=headers, content_type="application/json")
