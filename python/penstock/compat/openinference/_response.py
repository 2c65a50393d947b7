"""From what a handler returns to the answer that its callers get."""

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
from penstock.compat.openinference._tensors import Declared, as_array

__all__ = ["answer_of"]

_OF_THE_SERVER = {"content-length", "content-type", "connection", "date", "trailer", "transfer-encoding", "upgrade"}


def answer_of(
    returned: Any, declared: Declared, options: Options, protocol: str, asked: InferenceRequest | None = None
) -> Response:
    """The answer: of a dict, a response with body and status, a pair of status and body, or JSON.

    Raises:
        HandlerError: it is none of these, or breaks what the function declares.
    """
    status, headers, body = 200, None, returned
    if type(returned) is dict:
        pass
    elif hasattr(returned, "status_code") and hasattr(returned, "body"):
        status, body = int(returned.status_code), returned.body
        headers = {str(name): str(value) for name, value in (returned.headers or {}).items()}
        headers = {name: value for name, value in headers.items() if name.lower() not in _OF_THE_SERVER}
    elif isinstance(returned, tuple):
        if len(returned) != 2 or isinstance(returned[0], bool) or not isinstance(returned[0], int):
            raise HandlerError("the handler returned a tuple that is no pair of status and body")
        status, body = returned
    if not 200 <= status <= 599:
        raise HandlerError(f"the handler returned status {status}, expected one of 200 to 599")
    if status >= 400:
        return _refusal(status, headers, body)
    content = _object(body)
    if "outputs" not in content:
        if "error" in content:
            return _refusal(500, headers, content)
        raise HandlerError("the handler returned an object without 'outputs'")
    outputs = _outputs(content["outputs"], options, protocol)
    if options.validate == "on":
        declared.check_answer(outputs)
    if options.nan == "error":
        _check_finite(outputs)
    said = content.get("id")
    if asked is not None:
        # What the server does for requests that it has read itself.
        said = said or asked.id
        outputs = _chosen(outputs, asked)
    return Response(
        outputs=outputs,
        status=status,
        headers=headers,
        parameters=content.get("parameters") or {},
        id=None if not said else str(said),
    )


def _object(body: Any) -> Mapping[str, Any]:
    if type(body) is dict:
        return body
    if isinstance(body, (str, bytes)):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise HandlerError(f"the handler returned a text that is no JSON: {error}") from None
    if isinstance(body, Mapping):
        return body
    hint = "; one request has one answer" if isinstance(body, list) else ""
    raise HandlerError(f"the handler returned {type(body).__name__}, expected a dict with 'outputs'{hint}")


def _outputs(given: Any, options: Options, protocol: str) -> dict[str, Any]:
    if type(given) is not list and isinstance(given, Mapping):
        given = [{"name": name, "data": data} for name, data in given.items()]
    if not isinstance(given, (list, tuple)):
        raise HandlerError(f"'outputs' is {type(given).__name__}, expected a list of tensors")
    found: dict[str, Any] = {}
    for index, one in enumerate(given):
        if not (type(one) is dict or isinstance(one, Mapping)) or "data" not in one:
            raise HandlerError(f"outputs[{index}] is no object with name, datatype, shape and data")
        name = str(one.get("name") or f"output-{index}")
        if name in found:
            raise HandlerError(f"the handler returned output '{name}' twice")
        datatype = one.get("datatype") or one.get("data_type")
        datatype = "BYTES" if datatype == "STRING" else datatype
        data = one["data"]
        if options.bytes_mode == "digitalhub" and protocol == "grpc" and isinstance(data, str):
            data = _decoded(data, name)
        found[name] = as_array(data, datatype, one.get("shape"), name, repair=options.validate == "off")
    return found


def _check_finite(outputs: dict[str, Any]) -> None:
    for name, array in outputs.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise HandlerError(f"output '{name}' has NaN or infinities")


def _chosen(outputs: dict[str, Any], asked: InferenceRequest) -> dict[str, Any]:
    """Those outputs that a request asks for."""
    names = [one.name for one in asked.outputs] or [*outputs]
    for name in names:
        if name not in outputs:
            raise InvalidInput(f"there is no output '{name}', the answer has {', '.join(outputs)}")
    return {name: outputs[name] for name in names}


def _decoded(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise HandlerError(f"output '{name}' is no base64, as bytes_mode digitalhub has texts") from None


def _refusal(status: int, headers: Mapping[str, str] | None, body: Any) -> Response:
    """Every error is an object with `error`."""
    if isinstance(body, bytes):
        body = body.decode(errors="replace")
    if isinstance(body, str):
        with contextlib.suppress(ValueError):
            body = json.loads(body)
    if not isinstance(body, Mapping):
        body = {"error": "" if body is None else str(body)}
    if not isinstance(body.get("error"), str):
        said = body.get("error", body.get("message", body.get("detail", json.dumps(body, default=str))))
        body = {**body, "error": said if isinstance(said, str) else json.dumps(said, default=str)}
    content = json.dumps(body, default=str)
    return Response(content, status=status, headers=headers, content_type="application/json")
