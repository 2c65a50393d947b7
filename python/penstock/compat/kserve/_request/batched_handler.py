"""`BatchedHandler`: computes rows of several requests in one call of their model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock import Context, Request
from penstock.compat.kserve._request import row_batches
from penstock.compat.kserve._request.errors import error_response
from penstock.compat.kserve._request.row_batches import ReceivedRequest

if TYPE_CHECKING:
    from penstock.compat.kserve._request.handler import Headers, ModelHandler

__all__ = ["BatchedHandler"]


class BatchedHandler:
    """Handles compatible requests in one call.

    If the call fails or its result cannot be split, each request is computed alone, so that one client's mistake does
    not fail the others.

    Args:
        handler: Handles one request.
        name: The model's name.
        limit: The most rows of one call.
    """

    def __init__(self, handler: ModelHandler, name: str, limit: int) -> None:
        self._handler, self._name, self._limit = handler, name, limit

    def handle(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Handles requests on this thread."""
        responses = _Responses(requests)
        with self._handler.measured(ctx.metrics) as times:
            for group in self._groups(requests, responses):
                if len(group) > 1:
                    try:
                        body, headers = row_batches.merged(group, self._name), row_batches.common_headers(group)
                        result = self._handler.run(body, headers, times, group[0].explain)
                        responses.put(group, self._split(group, *result))
                    except Exception as raised:
                        _log_retry(raised, group)
                    else:
                        continue
                responses.put(group, [self._handler.handle(one.request, times) for one in group])
        return responses.all()

    async def handle_async(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Handles requests on an event loop."""
        recorder, responses = ctx.metrics, _Responses(requests)
        for group in self._groups(requests, responses):
            if len(group) > 1:
                try:
                    body, headers = row_batches.merged(group, self._name), row_batches.common_headers(group)
                    result = await self._handler.run_async(body, headers, recorder, group[0].explain)
                    responses.put(group, self._split(group, *result))
                except Exception as raised:
                    _log_retry(raised, group)
                else:
                    continue
            responses.put(group, [await self._handler.handle_async(one.request, ctx) for one in group])
        return responses.all()

    def _groups(self, requests: Sequence[Request], responses: _Responses) -> list[list[ReceivedRequest]]:
        """Returns the compatible requests together; unreadable ones get their error response here."""
        received = []
        for request in requests:
            headers = request.headers
            try:
                received.append(ReceivedRequest(request, *self._handler.read(request, headers), headers))
            except Exception as raised:
                responses.put_error(request, raised)
        return row_batches.grouped(received, self._limit)

    def _split(self, group: Sequence[ReceivedRequest], result: Any, response_headers: Headers) -> list[Any]:
        parts = row_batches.split(result, group)
        return [
            self._handler.respond(one.request, part, response_headers, one.event, one.headers)
            for one, part in zip(group, parts, strict=True)
        ]


class _Responses:
    """The responses to some requests, in their order."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._responses: dict[int, Any] = {}

    def put(self, group: Sequence[ReceivedRequest], responses: Sequence[Any]) -> None:
        """Sets the responses of a group."""
        self._responses.update(zip((id(one.request) for one in group), responses, strict=True))

    def put_error(self, request: Request, raised: Exception) -> None:
        """Sets the error response of a request."""
        self._responses[id(request)] = error_response(raised, over_grpc=request.protocol == "grpc")

    def all(self) -> list[Any]:
        """Returns all responses."""
        return [self._responses[id(request)] for request in self._requests]


def _log_retry(raised: Exception, group: Sequence[ReceivedRequest]) -> None:
    from penstock.compat.kserve.logging import logger

    logger.debug("a call for %d requests failed, each is computed alone", len(group), exc_info=raised)
