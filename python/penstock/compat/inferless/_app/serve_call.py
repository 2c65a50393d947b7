"""`Answering`: what stands around each call of an app: keys, loading, errors, and the form of answers."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import HandlerError, PenstockError, Request, Response
from penstock.compat.inferless._request import Asked, asked_of
from penstock.compat.inferless._response import arrays_of, plain
from penstock.compat.inferless._settings import Settings

if TYPE_CHECKING:
    from penstock.compat.inferless._app.app_instance import Kept

__all__ = ["Answering"]

logger = logging.getLogger("penstock.inferless")

JSON = "application/json"
_LONGEST = 400
"""Characters of an error of the app's that callers are shown."""


class Answering:
    """What stands around each call."""

    kept: Kept

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = f"Bearer {settings.api_key}".encode() if settings.api_key else b""

    def refused(self, request: Request) -> Response | None:
        """What a request is answered that does not reach the app; None for one that does.

        The app is loaded anew before, if that is wanted.
        """
        if self._key and not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._key):
            return error_of(
                401, "the key is missing or wrong, expected the header 'Authorization: Bearer KEY'", bearer=True
            )
        route = request.route or ""
        if route.startswith("POST /v2/repository/"):
            return self._controlled(load=route.endswith("/load"))
        self.kept.refresh()
        if not self.kept.is_loaded:
            return error_of(503, f"model '{self._settings.name}' is unloaded")
        return None

    def guarded(self, request: Request, answer: Callable[[Request], Response]) -> Response:
        """Answers one request."""
        refused = self.refused(request)
        if refused is not None:
            return refused
        try:
            return answer(request)
        except PenstockError:
            raise
        except Exception as error:
            raise self.failure(error) from error

    def prepared(self, request: Request, *, rows: bool = False) -> Any:
        """What a request of several asks, with its values; or else how it is answered without the app."""
        refused = self.refused(request)
        if refused is not None:
            return refused
        try:
            asked = asked_of(request)
            reader = self.kept.reader
            return asked, (reader.rows(asked.given) if rows else reader.one(asked.given))
        except PenstockError as error:
            return error

    def finished(self, prepared: Any, answer: Any) -> Response | Exception:
        """The answer to a request of several, of what the app gave for it."""
        if not isinstance(prepared, tuple) or isinstance(answer, Exception):
            given: Response | Exception = answer
            return given
        try:
            return self.whole(prepared[0], arrays_of(answer, self.kept.schema))
        except PenstockError as error:
            return error

    def whole(self, asked: Asked, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Response:
        """An answer of tensors."""
        return Response(outputs=asked.wanted(arrays), id=asked.id or None)

    def event(self, asked: Asked, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Response:
        """A piece of an answer, as an event of a stream."""
        told: dict[str, Any] = {"id": asked.id} if asked.id else {}
        told.update(model_name=self._settings.name, model_version="1")
        told.update({name: plain(array) for name, array in asked.wanted(arrays).items()})
        return _event(told)

    @staticmethod
    def event_of_error(error: PenstockError) -> Response:
        """The last event of a stream that fails."""
        return _event({"error": str(error)})

    def failure(self, error: BaseException) -> PenstockError:
        """An error of the app's as callers see it: its class and what it says. The log has the traceback."""
        if isinstance(error, PenstockError):
            return error
        logger.error("%s: infer failed", self._settings.name, exc_info=error)
        text = " ".join(str(error).split())
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
        return HandlerError(f"infer failed: {type(error).__name__}{f': {text}' if text else ''}")

    def _controlled(self, *, load: bool) -> Response:
        try:
            self.kept.reload() if load else self.kept.unload()
        except Exception as error:
            return error_of(400, f"model '{self._settings.name}' cannot be loaded: {type(error).__name__}: {error}")
        return Response(b"", content_type=JSON)


def _event(told: Mapping[str, Any]) -> Response:
    # Characters as they are, and no number that JSON does not have.
    text = json.dumps(told, ensure_ascii=False, default=str)
    return Response(f"data: {text}\n\n", content_type="text/event-stream")


def error_of(status: int, message: str, *, bearer: bool = False) -> Response:
    """A refusal, in JSON."""
    headers = {"WWW-Authenticate": "Bearer"} if bearer else None
    return Response(json.dumps({"error": message}), status=status, headers=headers, content_type=JSON)
