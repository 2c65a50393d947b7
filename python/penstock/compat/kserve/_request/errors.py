"""What callers are told when a model raises."""

from __future__ import annotations

from typing import Any

from penstock import PenstockError, Response
from penstock.compat.kserve import errors
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol import _json

__all__ = ["CAUGHT", "failed"]

CAUGHT = Exception
"""What a model may raise to fail its callers, and only them."""

_OVER_HTTP: tuple[tuple[type[Exception], int], ...] = (
    (errors.InvalidInput, 400),
    (errors.InferenceError, 500),
    (errors.ModelNotFound, 404),
    (errors.ModelNotReady, 503),
    (errors.ServerNotReady, 503),
    (errors.ServerNotLive, 503),
    (errors.UnsupportedProtocol, 501),
    (NotImplementedError, 501),
)
_BLAMED_ON_THE_CALLER = (errors.InferenceError, errors.UnsupportedProtocol)
"""INVALID_ARGUMENT over gRPC."""


def failed(raised: Exception, *, over_grpc: bool) -> Any:
    """The answer to a request whose model raised. The log gets the traceback of what nobody foresaw."""
    upstream = getattr(raised, "upstream", None)
    if upstream is None and isinstance(raised, PenstockError):
        return raised
    detail = _http_exception(raised)
    status, text, headers = detail or _told(raised, upstream)
    body = {"error" if detail is None else "detail": text}
    if status == 500:
        logger.error("Exception:", exc_info=raised)
    else:
        logger.info("%d: %s", status, text)
    if not over_grpc:
        return Response(_json.dumps(body), status=status, headers=headers, content_type="application/json")
    if isinstance(raised, _BLAMED_ON_THE_CALLER):
        return Response(str(raised.reason), status=400)
    if status == 500 and detail is None and upstream is None:
        text = "Internal server error"
    return Response(text if isinstance(text, str) else _json.dumps(text), status=status)


def _told(raised: Exception, upstream: tuple[int, str] | None) -> tuple[int, str, None]:
    """Status and text of an exception of ours, or of another server's refusal."""
    if upstream is not None:
        status, text = upstream
        # A redirection is none of our caller's business.
        return status if status >= 400 else 502, text, None
    known = _status(raised)
    if known is None:
        return 500, f"{type(raised).__name__} : {raised}", None
    return known, str(raised), None


def _status(raised: Exception) -> int | None:
    """The HTTP status of an exception: by its class, else the one that it says itself."""
    for kind, status in _OVER_HTTP:
        if isinstance(raised, kind):
            return status
    said = getattr(raised, "status", None)
    return said if type(said) is int and 400 <= said <= 599 else None


def _http_exception(raised: Exception) -> tuple[int, Any, dict[str, str] | None] | None:
    """Status, detail and headers of an `HTTPException` of a web framework."""
    status = getattr(raised, "status_code", None)
    if not isinstance(status, int) or not hasattr(raised, "detail") or not 400 <= status <= 599:
        return None
    headers = getattr(raised, "headers", None)
    return int(status), raised.detail, dict(headers) if headers else None
