"""Exceptions of the gRPC clients, which are grpc's classes too once the script has loaded grpc."""

from __future__ import annotations

import enum
import functools
import sys
from typing import Any

from penstock.errors import InvalidInput, PenstockError, Timeout, TooLarge, Unavailable, Unsupported

__all__ = ["RpcError", "StatusCode", "of_native", "rpc_error"]


class StatusCode(enum.Enum):
    """gRPC's codes, with the names and values of `grpc.StatusCode`."""

    OK = (0, "ok")
    CANCELLED = (1, "cancelled")
    UNKNOWN = (2, "unknown")
    INVALID_ARGUMENT = (3, "invalid argument")
    DEADLINE_EXCEEDED = (4, "deadline exceeded")
    NOT_FOUND = (5, "not found")
    ALREADY_EXISTS = (6, "already exists")
    PERMISSION_DENIED = (7, "permission denied")
    RESOURCE_EXHAUSTED = (8, "resource exhausted")
    FAILED_PRECONDITION = (9, "failed precondition")
    ABORTED = (10, "aborted")
    OUT_OF_RANGE = (11, "out of range")
    UNIMPLEMENTED = (12, "unimplemented")
    INTERNAL = (13, "internal")
    UNAVAILABLE = (14, "unavailable")
    DATA_LOSS = (15, "data loss")
    UNAUTHENTICATED = (16, "unauthenticated")


class RpcError(Exception):
    """A failed call; `code()` and `details()` describe it.

    Also a `grpc.aio.AioRpcError` (in the synchronous client `grpc.RpcError` and `grpc.Call`) if grpc is
    loaded; its code is a `grpc.StatusCode` then.
    """

    def __init__(self, code: StatusCode, details: str) -> None:
        Exception.__init__(self, code, details)
        self._status = code
        self._details = details

    def code(self) -> Any:
        """Returns the code."""
        grpc = sys.modules.get("grpc")
        return self._status if grpc is None else grpc.StatusCode[self._status.name]

    def details(self) -> str:
        """Returns the server's text, or the client's error."""
        return self._details

    def initial_metadata(self) -> Any:
        """Returns no metadata."""
        return ()

    def trailing_metadata(self) -> Any:
        """Returns no metadata."""
        return ()

    def debug_error_string(self) -> str:
        """Returns the details."""
        return self._details

    def __str__(self) -> str:
        return f"StatusCode.{self._status.name}: {self._details}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return RpcError, (self._status, self._details)


_OF_HTTP = {401: 16, 403: 7, 404: 12, 429: 14, 502: 14, 503: 14, 504: 14, 400: 13}
_OF_KIND = ((Timeout, 4), (Unavailable, 14), (TooLarge, 8), (Unsupported, 12), (InvalidInput, 3))
_BY_NUMBER = {code.value[0]: code for code in StatusCode}


def rpc_error(code: StatusCode, details: str, asynchronous: bool) -> RpcError:
    """Returns the exception of a failed call."""
    return _class_of(asynchronous)(code, details)


def of_native(error: PenstockError, asynchronous: bool) -> RpcError:
    """Returns the exception for an error of the native client."""
    status = error.status
    if status is None:
        number = next((number for kind, number in _OF_KIND if isinstance(error, kind)), 2)
    else:
        # A server without gRPC responds with an HTTP status.
        number = status if status in _BY_NUMBER else _OF_HTTP.get(status, 2)
    return rpc_error(_BY_NUMBER[number], str(error), asynchronous)


def _class_of(asynchronous: bool) -> type[RpcError]:
    grpc = sys.modules.get("grpc")
    if grpc is None:
        return RpcError
    if asynchronous:
        return _joined((grpc.aio.AioRpcError,))
    return _joined((grpc.RpcError, grpc.Call))


@functools.cache
def _joined(real: tuple[type[Any], ...]) -> type[RpcError]:
    return type("RpcError", (RpcError, *real), {"__module__": RpcError.__module__, "__doc__": RpcError.__doc__})
