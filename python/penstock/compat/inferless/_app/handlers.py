"""Handlers of an app: for single, concurrent, batched and streaming calls of `infer`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock import HandlerError, PenstockError, Request, Response
from penstock.compat.inferless._app.serve_call import AppHandler
from penstock.compat.inferless._app.streams import stream_chunks
from penstock.compat.inferless._request import parse_request
from penstock.compat.inferless._response import stack_rows, to_tensors

__all__ = ["BatchHandler", "ConcurrentHandler", "SingleHandler", "StreamingHandler"]


class SingleHandler(AppHandler):
    """Computes one request per call."""

    def __call__(self, request: Request) -> Response:
        """Responds to a request."""
        return self.respond(request, self._compute_request)

    def _compute_request(self, request: Request) -> Response:
        reader = self.app.reader
        parsed = parse_request(request, reader.read_plain)
        values = reader.read(parsed.tensors) if parsed.values is None else parsed.values
        tensors = to_tensors(self.compute(values), self.app.schema)
        return self.to_response(parsed, tensors)


class ConcurrentHandler(AppHandler):
    """Computes several requests concurrently: on an event loop, or on threads for a thread-safe app."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="inferless")

    def __call__(self, requests: list[Request]) -> list[Response | Exception]:
        """Responds to requests, each by its own call of `infer`."""
        prepared = [self.prepare(request) for request in requests]
        results = self.app.compute(lambda: self._compute_all(prepared))
        return [self.finish(one, result) for one, result in zip(prepared, results, strict=True)]

    def _compute_all(self, prepared: Sequence[Any]) -> list[Any]:
        code = self.app.code
        if not code.is_async:
            return list(self._pool.map(self._compute_one, prepared))

        async def compute(one: Any) -> Any:
            if not isinstance(one, tuple):
                return one
            try:
                return await code.infer(self.app.wrap(one[1]))
            except Exception as error:
                return self.failure(error)

        async def compute_all() -> list[Any]:
            return await asyncio.gather(*map(compute, prepared))

        results: list[Any] = code.resolve(compute_all())
        return results

    def _compute_one(self, one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        try:
            return self.app.code.infer(self.app.wrap(one[1]))
        except Exception as error:
            return self.failure(error)


class BatchHandler(AppHandler):
    """Computes the rows of several requests by one call of `infer`, which takes and returns a list of dicts."""

    def __call__(self, requests: list[Request]) -> list[Response | Exception]:
        """Responds to the requests of a batch."""
        prepared: list[Any] = [self.prepare(request, rows=True) for request in requests]
        rows = [row for one in prepared if isinstance(one, tuple) for row in one[1][0]]
        if not rows:
            return prepared
        try:
            returned = self.compute(rows)
        except Exception as error:
            failure = self.failure(error)
            return [failure if isinstance(one, tuple) else one for one in prepared]
        results = iter(self._check_results(returned, len(rows)))
        return [self._scatter(one, results) if isinstance(one, tuple) else one for one in prepared]

    @staticmethod
    def _check_results(returned: Any, count: int) -> list[Any]:
        if not isinstance(returned, (list, tuple)):
            raise HandlerError(f"infer returned a {type(returned).__name__}, expected a list of {count} dicts")
        if len(returned) != count:
            raise HandlerError(f"infer returned {len(returned)} answers for {count} requests")
        return list(returned)

    def _scatter(self, prepared: Any, results: Iterator[Any]) -> Response | Exception:
        """Returns the response to one request, from the next results."""
        parsed, (rows, has_row_axis) = prepared
        own_results = [next(results) for _ in rows]
        try:
            tensors = [to_tensors(row, self.app.schema) for row in own_results]
            return self.to_response(parsed, stack_rows(tensors) if has_row_axis else tensors[0])
        except PenstockError as error:
            return error


class StreamingHandler(AppHandler):
    """Responds by a stream of chunks."""

    def __call__(self, request: Request) -> Iterator[Response]:
        """Yields the chunks of a response."""
        rejected = self.reject(request)
        if rejected is not None:
            yield rejected
            return
        parsed = parse_request(request)
        inputs = self.app.wrap(self.app.reader.read(parsed.tensors))
        assert self.app.thread is not None
        chunks = stream_chunks(self.app.code, self.app.thread, inputs, self.settings.timeout)
        has_started = False
        try:
            for chunk in chunks:
                tensors = to_tensors(chunk, self.app.schema)
                yield Response(outputs=tensors) if request.route is None else self.to_event(parsed, tensors)
                has_started = True
        except Exception as error:
            # An error before the first chunk has its own status; a later one is an event.
            if not has_started or request.route is None:
                raise self.failure(error) from error
            yield self.error_event(self.failure(error))
        if not has_started and request.route is not None:
            yield Response(b"", content_type="text/event-stream")
