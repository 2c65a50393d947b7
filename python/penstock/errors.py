"""Every error that Penstock raises, or that a handler may raise to choose its answer.

::

    PenstockError
    ├── InvalidInput          400  also ValueError           the request is wrong: fix it, do not retry it
    ├── AlreadyExists         400  also ValueError           there is one of that name already
    ├── Forbidden             403  also PermissionError      the caller may not do this
    ├── NotFound              404  also LookupError          no such model, version or route
    ├── MethodNotAllowed      405                            the route exists, not for this method
    ├── TooLarge              413                            the request is larger than a limit
    ├── UnsupportedEncoding   415                            a content encoding that is not read
    ├── Overloaded            429                            the queue is full: retry later
    ├── Cancelled             499                            the caller left or took the request back
    ├── HandlerError          500                            the model failed, or broke its own signature
    ├── InternalError         500                            a defect of the server
    ├── Unsupported           501  also NotImplementedError  a feature that is not there
    ├── Unavailable           503                            starting, draining or not ready: retry later
    ├── Timeout               504  also TimeoutError         the deadline passed
    └── StartupError                                         the server cannot start; never an answer
        ├── ConfigError            also ValueError           a setting is wrong
        ├── SignatureError         also TypeError            a model cannot be served as it is declared
        ├── LoadError                                        the user's code failed while it was loaded
        └── BindError                                        an address cannot be listened on

A handler that raises one of the first fourteen answers with its status and its message. Any other
exception is the model's fault: status 500, a public message, and the traceback in the log only.
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
    "Timeout",
    "TooLarge",
    "Unavailable",
    "Unsupported",
    "UnsupportedEncoding",
    "by_kind",
    "by_status",
]


class PenstockError(Exception):
    """The root of the tree. Raise one of its children."""

    kind: ClassVar[str] = "internal"
    """The stable lower-case name, also the label in metrics and the field in logs."""
    status: int | None = None
    """What a client was answered: an HTTP status or a gRPC code; None if there was no answer."""
    retry_after: float | None = None
    """Seconds after which a server says that a retry may succeed; None if it does not say."""


class InvalidInput(PenstockError, ValueError):
    """The request is wrong. The message should name the input, what was given and what is expected."""

    kind = "invalid_input"


class AlreadyExists(PenstockError, ValueError):
    """There is one of that name already."""

    kind = "already_exists"


class Forbidden(PenstockError, PermissionError):
    """The caller may not do this."""

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
    """The request's content encoding is not one that the server reads."""

    kind = "unsupported_encoding"


class Overloaded(PenstockError):
    """The queue is full. A later retry may succeed."""

    kind = "overloaded"


class Cancelled(PenstockError):
    """The caller left, or took the request back."""

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
    """The deadline passed before the answer was there."""

    kind = "timeout"


class StartupError(PenstockError):
    """The server cannot start. Its message is one line."""

    kind = "startup"


class ConfigError(StartupError, ValueError):
    """A setting is wrong. The message names the setting and where it came from."""


class SignatureError(StartupError, TypeError):
    """A model cannot be served as it is declared. The message says what to write instead."""


class LoadError(StartupError):
    """The user's code failed while it was loaded; `__cause__` is its own exception."""


class BindError(StartupError):
    """An address cannot be listened on, for example because its port is in use."""


_ANSWERS: tuple[tuple[int, type[PenstockError]], ...] = (
    (400, InvalidInput),
    (400, AlreadyExists),
    (403, Forbidden),
    (404, NotFound),
    (405, MethodNotAllowed),
    (413, TooLarge),
    (415, UnsupportedEncoding),
    (429, Overloaded),
    (499, Cancelled),
    (500, HandlerError),
    (500, InternalError),
    (501, Unsupported),
    (503, Unavailable),
    (504, Timeout),
)


def by_kind(kind: str) -> type[PenstockError]:
    """The class whose `kind` that is; `InternalError` for a kind that is not known."""
    return next((error for _, error in _ANSWERS if error.kind == kind), InternalError)


def by_status(status: int) -> type[PenstockError]:
    """The class that an HTTP status stands for; 500 is `HandlerError`, the likelier of the two.

    A status that is not in the table is the client's mistake below 500, else the server's.
    """
    fallback = InvalidInput if 400 <= status < 500 else InternalError
    return next((error for known, error in _ANSWERS if known == status), fallback)
