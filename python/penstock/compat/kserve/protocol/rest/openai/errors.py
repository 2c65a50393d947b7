"""`OpenAIError`, and errors in OpenAI's form."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.compat.kserve._request.json_response import json_response
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol.rest.openai.types import Error, ErrorResponse

__all__ = ["OpenAIError", "create_error_response", "openai_error_handler"]


class OpenAIError(Exception):
    """An error whose response has OpenAI's form.

    Args:
        response: The response, with its status as `error.code`; or a text, for 500.
    """

    def __init__(self, response: Any) -> None:
        super().__init__(response)
        self.response = response

    def __str__(self) -> str:
        error = getattr(self.response, "error", None)
        return str(self.response if error is None else error.message)


def create_error_response(
    message: str,
    err_type: str = "BadRequestError",
    param: str = "",
    status_code: HTTPStatus = HTTPStatus.BAD_REQUEST,
) -> ErrorResponse:
    """Returns an error in OpenAI's form, with the status as its code."""
    return ErrorResponse(error=Error(message=message, type=err_type, param=param, code=str(int(status_code))))


def response_of(error: OpenAIError) -> Any:
    """Returns the response of an error."""
    if hasattr(error.response, "error"):
        return error.response
    return create_error_response(str(error), type(error).__name__, status_code=HTTPStatus.INTERNAL_SERVER_ERROR)


def status_of(response: Any) -> int:
    """Returns the HTTP status of an error; 500 if its code is not an error status."""
    code = str(response.error.code)
    return int(code) if code.isdecimal() and 400 <= int(code) <= 599 else 500


async def openai_error_handler(_: Any, exc: OpenAIError) -> Any:
    """Returns the HTTP response of an `OpenAIError`, for the script's own applications."""
    logger.error("Exception:", exc_info=exc)
    response = response_of(exc)
    return json_response(status_of(response), response.model_dump())
