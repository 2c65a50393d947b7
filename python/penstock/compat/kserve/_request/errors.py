"""Error responses for exceptions of models."""

from __future__ import annotations

from typing import Any

from penstock import PenstockError, Response
from penstock.compat.kserve import errors
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol import _json

__all__ = ["error_response"]

_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.InvalidInput, 400),
    (errors.InferenceError, 500),
    (errors.ModelNotFound, 404),
    (errors.ModelNotReady, 503),
    (errors.ServerNotReady, 503),
    (errors.ServerNotLive, 503),
    (errors.UnsupportedProtocol, 501),
    (NotImplementedError, 501),
)
_INVALID_ARGUMENT = (errors.InferenceError, errors.UnsupportedProtocol)
"""INVALID_ARGUMENT over gRPC, as in KServe."""


def error_response(raised: Exception, *, over_grpc: bool) -> Any:
    """Returns the response to a request whose model raised; logs the traceback of a 500."""
    upstream = getattr(raised, "upstream", None)
    if upstream is None and isinstance(raised, PenstockError):
        return raised
    detail = _http_exception(raised)
    status, text, headers = detail or _status_and_text(raised, upstream)
    body = {"error" if detail is None else "detail": text}
    if status == 500:
        logger.error("Exception:", exc_info=raised)
    else:
        logger.info("%d: %s", status, text)
    if not over_grpc:
        return Response(_json.dumps(body), status=status, headers=headers, content_type="application/json")
    if isinstance(raised, _INVALID_ARGUMENT):
        return Response(str(raised.reason), status=400)
    if status == 500 and detail is None and upstream is None:
        text = "Internal server error"
    return Response(text if isinstance(text, str) else _json.dumps(text), status=status)


def _status_and_text(raised: Exception, upstream: tuple[int, str] | None) -> tuple[int, str, None]:
    """Returns status and text of an exception, or of another server's error response."""
    if upstream is not None:
        status, text = upstream
        # A redirection of the upstream means nothing to this server's client.
        return status if status >= 400 else 502, text, None
    known = _status(raised)
    if known is None:
        return 500, f"{type(raised).__name__} : {raised}", None
    return known, str(raised), None


def _status(raised: Exception) -> int | None:
    """Returns the HTTP status of an exception: by its class, else its attribute `status`."""
    for kind, status in _STATUSES:
        if isinstance(raised, kind):
            return status
    declared = getattr(raised, "status", None)
    return declared if type(declared) is int and 400 <= declared <= 599 else None


def _http_exception(raised: Exception) -> tuple[int, Any, dict[str, str] | None] | None:
    """Returns status, detail and headers of a web framework's `HTTPException`."""
    status = getattr(raised, "status_code", None)
    if not isinstance(status, int) or not hasattr(raised, "detail") or not 400 <= status <= 599:
        return None
    headers = getattr(raised, "headers", None)
    return int(status), raised.detail, dict(headers) if headers else None
