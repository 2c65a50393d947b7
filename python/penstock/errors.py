"""Errors that Penstock raises, and that handlers may raise to choose their response.

::

    PenstockError
    ├── InvalidInput          400  also ValueError           the request is wrong: do not retry it
    ├── AlreadyExists         400  also ValueError           the name is in use already
    ├── Unauthenticated       401  also PermissionError      the client sent no key, or one that is not valid
    ├── Forbidden             403  also PermissionError      the client is not allowed to do this
    ├── NotFound              404  also LookupError          no such model, version or route
    ├── MethodNotAllowed      405                            the route exists, not for this method
    ├── TooLarge              413                            the request is larger than a limit
    ├── UnsupportedEncoding   415                            an unsupported content encoding
    ├── Overloaded            429                            the queue is full: retry later
    ├── Throttled             429                            the client exceeds its own limit: retry later
    ├── Cancelled             499                            the client left or cancelled the request
    ├── HandlerError          500                            the model failed, or violated its signature
    ├── InternalError         500                            a defect of the server
    ├── Unsupported           501  also NotImplementedError  a feature that is not available
    ├── Unavailable           503                            starting, draining or not ready: retry later
    ├── Timeout               504  also TimeoutError         the deadline passed
    └── StartupError                                         the server cannot start; never a response
        ├── ConfigError            also ValueError           a setting is wrong
        ├── SignatureError         also TypeError            a model cannot be served as it is declared
        ├── LoadError                                        the user's code failed while it was loaded
        └── BindError                                        an address cannot be listened on

A handler that raises one of the first sixteen responds with its status and message. For any other exception the
response has the status 500 and a generic message, and the traceback is only in the log.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyExists",
    "BindError",
    "Cancelled",
    "ConfigError",
    "Forbidden",
    "HandlerError",
    "InternalError",
    "InvalidInput",
    "LoadError",
    "MethodNotAllowed",
    "NotFound",
    "Overloaded",
    "PenstockError",
    "SignatureError",
    "StartupError",
    "Throttled",
    "Timeout",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "UnsupportedEncoding",
    "by_kind",
    "by_status",
]


class PenstockError(Exception):
    """Base class of all errors. Raise one of its subclasses."""

    kind: ClassVar[str] = "internal"
    """Stable lower-case name, which is also the label in metrics and the field in logs."""
    status: int | None = None
    """Status of the response for a client: an HTTP status or a gRPC code; None without a response."""
    retry_after: float | None = None
    """Seconds after which a retry may succeed, from the server; None if it is not given."""


class InvalidInput(PenstockError, ValueError):
    """The request is wrong. The message should name the input, what was given and what is expected."""

    kind = "invalid_input"


class AlreadyExists(PenstockError, ValueError):
    """The name is in use already."""

    kind = "already_exists"


class Unauthenticated(PenstockError, PermissionError):
    """The client sent no key, or one that is not valid."""

    kind = "unauthenticated"


class Forbidden(PenstockError, PermissionError):
    """The client is not allowed to do this."""

    kind = "forbidden"


class NotFound(PenstockError, LookupError):
    """No such model, version or route."""

    kind = "not_found"


class MethodNotAllowed(PenstockError):
    """The route exists, but not for this method."""

    kind = "method_not_allowed"


class TooLarge(PenstockError):
    """The request is larger than a limit."""

    kind = "too_large"


class UnsupportedEncoding(PenstockError):
    """The server does not support the request's content encoding."""

    kind = "unsupported_encoding"


class Overloaded(PenstockError):
    """The queue is full. A later retry may succeed."""

    kind = "overloaded"


class Throttled(PenstockError):
    """The client exceeds its own limit. A later retry may succeed."""

    kind = "throttled"


class Cancelled(PenstockError):
    """The client left, or cancelled the request."""

    kind = "cancelled"


class HandlerError(PenstockError):
    """The model's code failed, or returned what its signature does not allow."""

    kind = "handler"


class InternalError(PenstockError):
    """A defect of the server."""

    kind = "internal"


class Unsupported(PenstockError, NotImplementedError):
    """A feature that this server, model or build does not have."""

    kind = "unsupported"


class Unavailable(PenstockError):
    """The server or the model is starting, draining or not ready. A later retry may succeed."""

    kind = "unavailable"


class Timeout(PenstockError, TimeoutError):
    """The deadline passed before the response."""

    kind = "timeout"


class StartupError(PenstockError):
    """The server cannot start. Its message is one line."""

    kind = "startup"


class ConfigError(StartupError, ValueError):
    """A setting is wrong. The message names the setting and its source."""


class SignatureError(StartupError, TypeError):
    """A model cannot be served as it is declared. The message has a remedy."""


class LoadError(StartupError):
    """The user's code failed while it was loaded; `__cause__` is its own exception."""


class BindError(StartupError):
    """An address cannot be listened on, for example because its port is in use."""


_STATUSES: tuple[tuple[int, type[PenstockError]], ...] = (
    (400, InvalidInput),
    (400, AlreadyExists),
    (401, Unauthenticated),
    (403, Forbidden),
    (404, NotFound),
    (405, MethodNotAllowed),
    (413, TooLarge),
    (415, UnsupportedEncoding),
    (429, Overloaded),
    (429, Throttled),
    (499, Cancelled),
    (500, HandlerError),
    (500, InternalError),
    (501, Unsupported),
    (503, Unavailable),
    (504, Timeout),
)


def by_kind(kind: str) -> type[PenstockError]:
    """The error class of a kind; `InternalError` for an unknown kind."""
    return next((error for _, error in _STATUSES if error.kind == kind), InternalError)


def by_status(status: int) -> type[PenstockError]:
    """The error class of an HTTP status; for 500 `HandlerError`, the likelier of the two.

    For an unknown status it is `InvalidInput` below 500, else `InternalError`.
    """
    fallback = InvalidInput if 400 <= status < 500 else InternalError
    return next((error for known, error in _STATUSES if known == status), fallback)
