"""`AppHandler`: authentication, reloading, errors and response formats of calls to an app."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock import HandlerError, PenstockError, Request, Response
from penstock.compat.inferless._app.app_instance import AppInstance
from penstock.compat.inferless._app.modules import AppModules
from penstock.compat.inferless._request import ParsedRequest, parse_request
from penstock.compat.inferless._response import to_event_value, to_tensors
from penstock.compat.inferless._settings import Settings

__all__ = ["AppHandler"]

logger = logging.getLogger("penstock.inferless")

JSON = "application/json"
_ERROR_LENGTH = 400
"""Characters of an app's exception that are sent to the client."""


class AppHandler:
    """Base class of an app's handlers. Subclasses set the settings, because a handler is built without arguments."""

    settings: Settings
    modules: AppModules | None

    def __init__(self) -> None:
        self.app = AppInstance(self.settings, self.modules)
        self._key = f"Bearer {self.settings.api_key}".encode() if self.settings.api_key else b""

    def close(self) -> None:
        """Finalizes the app; exceptions of `finalize` are logged."""
        self.app.close()

    def compute(self, inputs: Any) -> Any:
        """Calls `infer` within its time limit and returns its result."""
        app = self.app
        return app.compute(lambda: app.code.resolve(app.code.infer(app.wrap(inputs))))

    def reject(self, request: Request) -> Response | None:
        """Returns the response to a rejected request, or to a load or unload; None for a request to the app.

        Reloads the app before if its files or its state file have changed.
        """
        if self._key and not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._key):
            return _error_response(
                401, "the key is missing or wrong, expected the header 'Authorization: Bearer KEY'", bearer=True
            )
        route = request.route or ""
        if route.startswith("POST /v2/repository/"):
            return self._load_or_unload(load=route.endswith("/load"))
        self.app.refresh()
        if not self.app.is_loaded:
            return _error_response(503, f"model '{self.settings.name}' is unloaded")
        return None

    def respond(self, request: Request, compute: Callable[[Request], Response]) -> Response:
        """Responds to one request; exceptions of the app become `HandlerError`."""
        rejected = self.reject(request)
        if rejected is not None:
            return rejected
        try:
            return compute(request)
        except PenstockError:
            raise
        except Exception as error:
            raise self.failure(error) from error

    def prepare(self, request: Request, *, rows: bool = False) -> Any:
        """Returns a request of a batch with its values; or, if it does not reach the app, its response or error."""
        rejected = self.reject(request)
        if rejected is not None:
            return rejected
        try:
            parsed = parse_request(request)
            reader = self.app.reader
            return parsed, (reader.read_rows(parsed.tensors) if rows else reader.read(parsed.tensors))
        except PenstockError as error:
            return error

    def finish(self, prepared: Any, result: Any) -> Response | Exception:
        """Returns the response to a request of a batch, from its result."""
        if not isinstance(prepared, tuple) or isinstance(result, Exception):
            response: Response | Exception = result
            return response
        try:
            return self.to_response(prepared[0], to_tensors(result, self.app.schema))
        except PenstockError as error:
            return error

    def to_response(self, parsed: ParsedRequest, tensors: Mapping[str, np.ndarray[Any, Any]]) -> Response:
        """Returns a response of tensors."""
        return Response(outputs=parsed.select_outputs(tensors), id=parsed.id or None)

    def to_event(self, parsed: ParsedRequest, tensors: Mapping[str, np.ndarray[Any, Any]]) -> Response:
        """Returns a chunk of a stream, as a server-sent event."""
        members: dict[str, Any] = {"id": parsed.id} if parsed.id else {}
        members.update(model_name=self.settings.name, model_version="1")
        members.update({name: to_event_value(array) for name, array in parsed.select_outputs(tensors).items()})
        return _event(members)

    @staticmethod
    def error_event(error: PenstockError) -> Response:
        """Returns the last event of a stream that fails."""
        return _event({"error": str(error)})

    def failure(self, error: BaseException) -> PenstockError:
        """Logs an exception of the app and returns the client's error: its class and message."""
        if isinstance(error, PenstockError):
            return error
        logger.error("%s: infer failed", self.settings.name, exc_info=error)
        text = " ".join(str(error).split())
        text = text if len(text) <= _ERROR_LENGTH else text[: _ERROR_LENGTH - 3] + "..."
        return HandlerError(f"infer failed: {type(error).__name__}{f': {text}' if text else ''}")

    def _load_or_unload(self, *, load: bool) -> Response:
        try:
            self.app.reload() if load else self.app.unload()
        except Exception as error:
            name = self.settings.name
            return _error_response(400, f"model '{name}' cannot be loaded: {type(error).__name__}: {error}")
        return Response(b"", content_type=JSON)


def _event(members: Mapping[str, Any]) -> Response:
    text = json.dumps(members, ensure_ascii=False, default=str)
    return Response(f"data: {text}\n\n", content_type="text/event-stream")


def _error_response(status: int, message: str, *, bearer: bool = False) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if bearer else None
    return Response(json.dumps({"error": message}), status=status, headers=headers, content_type=JSON)
