"""Requests of transformer.py, whose predictor is a server.py."""

from __future__ import annotations

from collections.abc import Iterator

from cases_grpc import infer, typed
from cases_http import INFER, PREDICT, tensor, text
from requests_as_data import GrpcCall, HttpRequest

PROTOCOLS = ("v1", "v2", "grpc-v2")


def cases(protocol: str) -> list[HttpRequest]:
    """Returns the HTTP requests, by the predictor's protocol."""
    return list(_v1(protocol) if protocol == "v1" else _v2(protocol))


def _v1(of: str) -> Iterator[HttpRequest]:
    own = {"x-request-id": "r-1", "X-Own": "mine", "Authorization": "Bearer t"}
    yield HttpRequest(f"pair {of}", PREDICT.format("double"), {"instances": [1, 2]})
    yield HttpRequest(f"pair {of}, headers", PREDICT.format("seen"), {"instances": [1]}, own)
    yield HttpRequest(f"pair {of}, stages", PREDICT.format("stages"), {"instances": [1]})
    yield HttpRequest(f"pair {of}, a predictor without the model", PREDICT.format("nope"), {"instances": [1]})
    for failure in ("InvalidInput", "ModelNotReady", "ValueError", "HTTPException", "NotImplementedError"):
        yield HttpRequest(f"pair {of}, {failure}", PREDICT.format("fails"), {"instances": [failure]})
    yield HttpRequest(f"pair {of}, explain", "/v1/models/double:explain", {"instances": [1]})


def _v2(of: str) -> Iterator[HttpRequest]:
    yield HttpRequest(f"pair {of} called by v1", PREDICT.format("double"), {"instances": [1, 2]})
    two = [tensor([1, 2], "INT64"), tensor(["a", "b"], "BYTES", name="t")]
    yield HttpRequest(f"pair {of}", INFER.format("echo"), {"id": "p", "inputs": two})
    yield HttpRequest(f"pair {of}, a predictor without the model", INFER.format("nope"), {"id": "p", "inputs": two})
    own = {"x-request-id": "r-1", "X-Own": "mine", "Authorization": "Bearer t"}
    yield HttpRequest(f"pair {of}, headers", INFER.format("seen"), {"id": "p", "inputs": two}, own)
    for failure in ("InvalidInput", "ModelNotReady", "ValueError", "HTTPException"):
        yield HttpRequest(f"pair {of}, {failure}", INFER.format("fails"), text(failure))


def calls(protocol: str) -> list[GrpcCall]:
    """Returns the gRPC calls."""
    if protocol == "v1":
        return []
    return [
        infer(f"pair {protocol} by gRPC", "echo", typed([1.5, 2])),
        infer(f"pair {protocol} by gRPC, InvalidInput", "fails", typed(["InvalidInput"], "BYTES")),
        infer(f"pair {protocol} by gRPC, a predictor without the model", "nope", typed([1])),
    ]
