"""KServe's exceptions, and the handlers that make HTTP answers of them.

The handlers are for applications of the script's own: the server knows by itself what each exception answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from penstock.compat.kserve._request.json_response import json_response
from penstock.compat.kserve.logging import logger

__all__ = [
    "InferenceError",
    "InvalidInput",
    "ModelMissingError",
    "ModelNotFound",
    "ModelNotReady",
    "NoModelReady",
    "ServerNotLive",
    "ServerNotReady",
    "UnsupportedProtocol",
    "WorkersShouldBeLessThanMaxWorkersError",
    "exception_handler",
    "generic_exception_handler",
    "inference_error_handler",
    "invalid_input_handler",
    "model_not_found_handler",
    "model_not_ready_handler",
    "not_implemented_error_handler",
    "server_not_live_handler",
    "server_not_ready_handler",
    "unsupported_protocol_error_handler",
]


class ModelMissingError(Exception):
    """There is no model at `path`. Answered with 500."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return str(self.path)


class InferenceError(RuntimeError):
    """The model could not compute. Answered with 500.

    Args:
        reason: What callers are told.
        status: Shown before the reason, in brackets.
        debug_details: Kept as an attribute; shown to nobody.
    """

    def __init__(self, reason: Any, status: str | None = None, debug_details: Any = None) -> None:
        super().__init__(reason, *_given(status, debug_details))
        self.reason = reason
        self.status = status
        self.debug_details = debug_details

    def __str__(self) -> str:
        return str(self.reason) if self.status is None else f"[{self.status}] {self.reason}"


def _reason(error: Any) -> str:
    return str(error.reason)


def _message(error: Any) -> str:
    return str(error.error_msg)


class InvalidInput(ValueError):
    """The request is the caller's mistake. Answered with 400."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason

    __str__ = _reason


class ModelNotFound(Exception):
    """There is no such model. Answered with 404."""

    def __init__(self, model_name: str | None = None) -> None:
        super().__init__(*_given(model_name))
        self.reason = f"Model with name {model_name} does not exist."

    __str__ = _reason


class WorkersShouldBeLessThanMaxWorkersError(Exception):
    """More workers are asked for than there may be."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(*_given(max_workers))
        self.reason = f"Workers cannot be greater than {max_workers}"

    __str__ = _reason


class UnsupportedProtocol(Exception):
    """There is no such protocol. Answered with 501."""

    def __init__(self, protocol_version: Any = None) -> None:
        super().__init__(*_given(protocol_version))
        self.reason = f"Unsupported protocol {protocol_version}."

    __str__ = _reason


class ModelNotReady(RuntimeError):
    """The model is known and cannot answer now. Answered with 503."""

    def __init__(self, model_name: str, detail: str | None = None) -> None:
        super().__init__(*_given(model_name, detail))
        self.model_name = model_name
        self.error_msg = _with_detail(f"Model with name {model_name} is not ready.", detail)

    __str__ = _message
    reason = property(_message)


class ServerNotReady(RuntimeError):
    """The server cannot answer now. Answered with 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(*_given(detail))
        self.error_msg = _with_detail("Server is not ready.", detail)

    __str__ = _message
    reason = property(_message)


class ServerNotLive(RuntimeError):
    """The server is going away. Answered with 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(*_given(detail))
        self.error_msg = _with_detail("Server is not live.", detail)

    __str__ = _message
    reason = property(_message)


class NoModelReady(RuntimeError):
    """None of the models that were to be served is ready."""

    def __init__(self, models: Sequence[Any], detail: str | None = None) -> None:
        super().__init__(*_given(models, detail))
        self.models = models
        self.detail = detail

    @property
    def error_msg(self) -> str:
        """The text, with the names that the models have now."""
        names = [str(model.name) for model in self.models]
        text = f"Model with name {names[0]} is" if len(names) == 1 else f"Models with names {','.join(names)} are"
        return _with_detail(f"{text} not ready.", self.detail)

    __str__ = _message
    reason = property(_message)


def _given(*arguments: Any) -> tuple[Any, ...]:
    """The arguments up to the last that is given: all that is needed to make the exception again elsewhere."""
    while arguments and arguments[-1] is None:
        arguments = arguments[:-1]
    return arguments


def _with_detail(text: str, detail: str | None) -> str:
    return f"{text} {detail}" if detail else text


def _answer(status: HTTPStatus, exc: BaseException, text: str | None = None) -> Any:
    logger.error("Exception:", exc_info=exc)
    return json_response(int(status), {"error": str(exc) if text is None else text})


async def exception_handler(_: Any, exc: BaseException) -> Any:
    """500 with the exception's text."""
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, exc)


async def invalid_input_handler(_: Any, exc: BaseException) -> Any:
    """400 with the exception's text."""
    return _answer(HTTPStatus.BAD_REQUEST, exc)


async def inference_error_handler(_: Any, exc: BaseException) -> Any:
    """500 with the exception's text."""
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, exc)


async def generic_exception_handler(_: Any, exc: BaseException) -> Any:
    """500 with the exception's type and text."""
    return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, exc, f"{type(exc).__name__} : {exc}")


async def model_not_found_handler(_: Any, exc: BaseException) -> Any:
    """404 with the exception's text."""
    return _answer(HTTPStatus.NOT_FOUND, exc)


async def model_not_ready_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, exc)


async def not_implemented_error_handler(_: Any, exc: BaseException) -> Any:
    """501 with the exception's text."""
    return _answer(HTTPStatus.NOT_IMPLEMENTED, exc)


async def unsupported_protocol_error_handler(_: Any, exc: BaseException) -> Any:
    """501 with the exception's text."""
    return _answer(HTTPStatus.NOT_IMPLEMENTED, exc)


async def server_not_ready_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, exc)


async def server_not_live_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, exc)
