"""KServe's exceptions, and their handlers for web frameworks.

The handlers are for the script's own applications: the server maps exceptions to statuses itself.
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
    """There is no model at `path`. Status 500."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return str(self.path)


class InferenceError(RuntimeError):
    """The model could not compute. Status 500.

    Args:
        reason: The text for clients.
        status: Prefix of the text, in brackets.
        debug_details: An attribute that is not part of the text.
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
    """The request is invalid. Status 400."""

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason

    __str__ = _reason


class ModelNotFound(Exception):
    """The model does not exist. Status 404."""

    def __init__(self, model_name: str | None = None) -> None:
        super().__init__(*_given(model_name))
        self.reason = f"Model with name {model_name} does not exist."

    __str__ = _reason


class WorkersShouldBeLessThanMaxWorkersError(Exception):
    """More workers are requested than allowed."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(*_given(max_workers))
        self.reason = f"Workers cannot be greater than {max_workers}"

    __str__ = _reason


class UnsupportedProtocol(Exception):
    """The protocol is unknown. Status 501."""

    def __init__(self, protocol_version: Any = None) -> None:
        super().__init__(*_given(protocol_version))
        self.reason = f"Unsupported protocol {protocol_version}."

    __str__ = _reason


class ModelNotReady(RuntimeError):
    """The model is not ready. Status 503."""

    def __init__(self, model_name: str, detail: str | None = None) -> None:
        super().__init__(*_given(model_name, detail))
        self.model_name = model_name
        self.error_msg = _with_detail(f"Model with name {model_name} is not ready.", detail)

    __str__ = _message
    reason = property(_message)


class ServerNotReady(RuntimeError):
    """The server is not ready. Status 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(*_given(detail))
        self.error_msg = _with_detail("Server is not ready.", detail)

    __str__ = _message
    reason = property(_message)


class ServerNotLive(RuntimeError):
    """The server is not live. Status 503."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(*_given(detail))
        self.error_msg = _with_detail("Server is not live.", detail)

    __str__ = _message
    reason = property(_message)


class NoModelReady(RuntimeError):
    """None of the models to serve is ready."""

    def __init__(self, models: Sequence[Any], detail: str | None = None) -> None:
        super().__init__(*_given(models, detail))
        self.models = models
        self.detail = detail

    @property
    def error_msg(self) -> str:
        """The text, with the models' current names."""
        names = [str(model.name) for model in self.models]
        text = f"Model with name {names[0]} is" if len(names) == 1 else f"Models with names {','.join(names)} are"
        return _with_detail(f"{text} not ready.", self.detail)

    __str__ = _message
    reason = property(_message)


def _given(*arguments: Any) -> tuple[Any, ...]:
    """Returns the arguments up to the last one that is set: those needed to unpickle the exception."""
    while arguments and arguments[-1] is None:
        arguments = arguments[:-1]
    return arguments


def _with_detail(text: str, detail: str | None) -> str:
    return f"{text} {detail}" if detail else text


def _response(status: HTTPStatus, exc: BaseException, text: str | None = None) -> Any:
    logger.error("Exception:", exc_info=exc)
    return json_response(int(status), {"error": str(exc) if text is None else text})


async def exception_handler(_: Any, exc: BaseException) -> Any:
    """500 with the exception's text."""
    return _response(HTTPStatus.INTERNAL_SERVER_ERROR, exc)


async def invalid_input_handler(_: Any, exc: BaseException) -> Any:
    """400 with the exception's text."""
    return _response(HTTPStatus.BAD_REQUEST, exc)


async def inference_error_handler(_: Any, exc: BaseException) -> Any:
    """500 with the exception's text."""
    return _response(HTTPStatus.INTERNAL_SERVER_ERROR, exc)


async def generic_exception_handler(_: Any, exc: BaseException) -> Any:
    """Returns a 500 response with the exception's type and text."""
    return _response(HTTPStatus.INTERNAL_SERVER_ERROR, exc, f"{type(exc).__name__} : {exc}")


async def model_not_found_handler(_: Any, exc: BaseException) -> Any:
    """404 with the exception's text."""
    return _response(HTTPStatus.NOT_FOUND, exc)


async def model_not_ready_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, exc)


async def not_implemented_error_handler(_: Any, exc: BaseException) -> Any:
    """501 with the exception's text."""
    return _response(HTTPStatus.NOT_IMPLEMENTED, exc)


async def unsupported_protocol_error_handler(_: Any, exc: BaseException) -> Any:
    """501 with the exception's text."""
    return _response(HTTPStatus.NOT_IMPLEMENTED, exc)


async def server_not_ready_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, exc)


async def server_not_live_handler(_: Any, exc: BaseException) -> Any:
    """503 with the exception's text."""
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, exc)
