"""HTTP and gRPC requests as data, sent without a client library that would change them."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as messages

PATIENCE = 30.0
COMPARED = ("content-type", "inference-header-content-length", "retry-after", "allow", "location")
"""Compared response headers, in addition to those with the prefixes `x-` and `ce-`."""
IGNORED = ("x-accel-buffering", "x-content-type-options")
"""Hints for proxies, which are not compared."""


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request."""

    case: str
    path: str
    body: Any = None
    """Bytes and text are sent unchanged, other values as JSON. A body makes the default method POST."""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str | None = None
    bare: bool = False
    """Omits the content type."""


@dataclass(frozen=True)
class GrpcCall:
    """A gRPC call."""

    case: str
    method: str
    request: Mapping[str, Any] = field(default_factory=dict)
    """The message as protobuf's JSON."""
    metadata: tuple[tuple[str, str], ...] = ()


def send_all(port: int, requests: Iterable[HttpRequest]) -> dict[str, Any]:
    """Returns the results of all requests by case."""
    return {one.case: send(port, one) for one in requests}


def send(port: int, one: HttpRequest) -> Any:
    """Returns status, compared headers and body."""
    method = one.method or ("GET" if one.body is None else "POST")
    body = one.body if one.body is None or isinstance(one.body, bytes) else _text(one.body).encode()
    headers = {} if one.bare or one.body is None else {"content-type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, one.path, body, {**headers, **one.headers})
        response = connection.getresponse()
        content = response.read()
    except (http.client.HTTPException, OSError) as error:
        return {"breaks": type(error).__name__}
    finally:
        connection.close()
    compared = {
        name.lower(): value
        for name, value in sorted(response.getheaders())
        if name.lower() in COMPARED or (name.lower().startswith(("x-", "ce-")) and name.lower() not in IGNORED)
    }
    return {"status": response.status, "headers": compared, "body": _decoded(content, compared)}


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def _decoded(content: bytes, headers: Mapping[str, str]) -> Any:
    """Returns a body as JSON; a binary one in two parts."""
    if length := headers.get("inference-header-content-length"):
        return [json.loads(content[: int(length)]), base64.b64encode(content[int(length) :]).decode()]
    if headers.get("content-type", "").startswith("text/event-stream"):
        events = [event.removeprefix("data: ") for event in content.decode().split("\n\n") if event]
        return {"events": [json.loads(event) if event != "[DONE]" else event for event in events]}
    try:
        return {"json": json.loads(content), "keys": _keys(content)}
    except ValueError:
        return {"text": content.decode("latin-1")}


def _keys(content: bytes) -> Any:
    """Returns the order of the top-level keys."""
    value = json.loads(content)
    return list(value) if isinstance(value, dict) else None


def call_all(port: int, calls: Iterable[GrpcCall]) -> dict[str, Any]:
    """Returns the results of all calls by case, over one channel."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return {one.case: call(channel, one) for one in calls}


def call(channel: grpc.Channel, one: GrpcCall) -> Any:
    """Returns the response as protobuf's JSON, or code and details."""
    request_class, parse_response = _messages(one.method)
    method = channel.unary_unary(
        f"/inference.GRPCInferenceService/{one.method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=parse_response,
    )
    try:
        response = method(json_format.ParseDict(one.request, request_class()), metadata=one.metadata, timeout=PATIENCE)
    except grpc.RpcError as error:
        return {"code": error.code().name, "details": error.details()}
    if isinstance(response, bytes):
        return {"response": response.hex()}
    return {"response": json_format.MessageToDict(response, preserving_proto_field_name=True)}


def _messages(method: str) -> tuple[Any, Any]:
    """Returns request class and response parser; the repository calls of tritonclient differ."""
    if method.startswith("Repository"):
        # The first field is a name, as in the repository requests.
        return messages.ModelReadyRequest, bytes
    return getattr(messages, f"{method}Request"), getattr(messages, f"{method}Response").FromString
