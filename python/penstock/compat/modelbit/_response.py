"""Responses of a deployment's function, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock import Response
from penstock.compat.modelbit.errors import RequestError

__all__ = ["JSON", "FunctionResponse", "error_response", "to_response"]

JSON = "application/json"


@dataclass(slots=True)
class FunctionResponse:
    """The response to one request."""

    body: bytes
    status: int = 200
    record: bytes = b""
    """The rows of its log entry, as JSON; empty if the request is not logged."""


def error_response(error: RequestError) -> FunctionResponse:
    """Returns the response to a request that failed."""
    return FunctionResponse(json.dumps({"error": str(error)}).encode(), error.status)


def to_response(response: FunctionResponse) -> Response:
    """Returns the HTTP response."""
    return Response(response.body, status=response.status, content_type=JSON)
