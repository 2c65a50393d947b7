"""`ModelHandler`: handles the requests of a model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock import Context, Request, Response
from penstock.compat.kserve import context
from penstock.compat.kserve._metrics.request_metrics import RequestMetrics, RequestTimes
from penstock.compat.kserve._metrics.stage_times import StageTimes
from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve._model.handler_kind import overrides_call, overrides_health
from penstock.compat.kserve._model.model_transfer import PackedModel, unpack_model
from penstock.compat.kserve._model.stages import Stages
from penstock.compat.kserve._request.bind_options import BindOptions
from penstock.compat.kserve._request.errors import error_response
from penstock.compat.kserve._request.request_body import read_rows, read_tensors
from penstock.compat.kserve._request.response import (
    chunk_response,
    is_stream,
    join_chunks,
    rows_response,
    tensors_response,
)
from penstock.compat.kserve.errors import ModelNotReady
from penstock.compat.kserve.metrics import MetricRecorder, recording
from penstock.compat.kserve.model import InferenceVerb, Model

__all__ = ["ModelHandler"]

Headers = dict[str, str]


class ModelHandler:
    """Handles the requests of a model. It can be pickled for another process if its model can.

    Args:
        model: The model.
        name: The name that the model is served under.
        options: How it is served.
    """

    def __init__(self, model: Any, name: str, options: BindOptions) -> None:
        self._model, self._name, self._options = model, name, options
        self._has_own_health = overrides_health(model)
        self._exact_content_types = options.exact_content_types
        self._metrics = RequestMetrics(model, options.latency_logging)
        self._stages = None if overrides_call(model) else Stages(model, Model)
        self._threads: ThreadPoolExecutor | None = None

    def __reduce__(self) -> Any:
        options = replace(self._options, loop_hooks=None, instance_count=None, packed=None)
        return _rebuild, (self._options.packed or self._model, self._name, options, context.get_predictor_config())

    def handle_batch(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Handles requests one after the other, on this thread."""
        with self.measured(ctx.metrics) as times:
            return [self.handle(request, times) for request in requests]

    @contextmanager
    def measured(self, recorder: MetricRecorder) -> Iterator[RequestTimes]:
        """Yields the record of requests that this thread computes together; records it at the end."""
        times = self._metrics.new_times()
        try:
            with recording(recorder):
                yield times
        finally:
            self._metrics.record(times, recorder)

    def handle(self, request: Request, times: RequestTimes) -> Any:
        """Handles a request on this thread."""
        try:
            headers = request.headers
            body, event, explain = self.read(request, headers)
            result, response_headers = self.run(body, headers, times, explain)
            if is_stream(result):
                result = join_chunks(request, background_loop.collect(result))
            return self.respond(request, result, response_headers, event, headers)
        except Exception as raised:
            return error_response(raised, over_grpc=request.protocol == "grpc")

    async def handle_async(self, request: Request, ctx: Context) -> Any:
        """Handles a request on an event loop."""
        try:
            result, response_headers, event = await self._read_and_run(request, ctx)
            if is_stream(result):
                result = join_chunks(request, [chunk async for chunk in result])
            return self.respond(request, result, response_headers, event, request.headers)
        except Exception as raised:
            return error_response(raised, over_grpc=request.protocol == "grpc")

    async def handle_concurrently(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Handles requests on an event loop, all at once."""
        return [*await asyncio.gather(*(self.handle_async(request, ctx) for request in requests))]

    async def stream(self, request: Request, ctx: Context) -> AsyncIterator[Any]:
        """Handles a request on an event loop; yields the chunks of a streamed result."""
        try:
            result, response_headers, event = await self._read_and_run(request, ctx)
            if not is_stream(result):
                yield self.respond(request, result, response_headers, event, request.headers)
                return
            async for chunk in result:
                yield chunk_response(self._name, request, chunk)
        except Exception as raised:
            yield error_response(raised, over_grpc=request.protocol == "grpc")

    def read(self, request: Request, headers: Headers) -> tuple[Any, Any, bool]:
        """Returns the model's argument, the attributes of the request's CloudEvent, and whether to explain.

        Raises:
            InvalidInput: the body is not a request of its protocol.
            ModelNotReady: the model is not ready.
        """
        if not self._has_own_health and not self._model.ready:
            raise ModelNotReady(self._name)
        route = request.route
        if route is None:
            return read_tensors(request, self._name), None, False
        body, event = read_rows(request, headers, exact=self._exact_content_types)
        return body, event, route.endswith(":explain")

    def run(self, body: Any, headers: Headers, times: RequestTimes, explain: bool) -> tuple[Any, Headers]:
        """Returns the model's result and response headers, computed on this thread."""
        if self._has_own_health and not background_loop.resolve(self._model.healthy()):
            raise ModelNotReady(self._name)
        stages = self._stages
        if stages is None:
            return _with_headers(background_loop.resolve(self._call(body, headers, explain)))
        stage_times = StageTimes()
        try:
            result = stages.run(body, headers, stage_times, explain=explain)
        finally:
            times.add(stage_times)
        times.add_line(stage_times, headers)
        return result

    async def run_async(
        self, body: Any, headers: Headers, recorder: MetricRecorder, explain: bool
    ) -> tuple[Any, Headers]:
        """Returns the model's result and response headers, computed on the running loop."""
        if self._has_own_health:
            healthy = self._model.healthy()
            if not (await healthy if inspect.isawaitable(healthy) else healthy):
                raise ModelNotReady(self._name)
        stages = self._stages
        if stages is None:
            returned = self._call(body, headers, explain)
            return _with_headers(await returned if isinstance(returned, Awaitable) else returned)
        stage_times = StageTimes()
        try:
            result = await stages.run_async(body, headers, stage_times, explain=explain, threads=self._pool())
        finally:
            times = self._metrics.pending_times(recorder)
            times.add(stage_times)
        times.add_line(stage_times, headers)
        return result

    def respond(
        self, request: Request, result: Any, response_headers: Headers, event: Any, headers: Headers
    ) -> Response:
        """Returns the response for a model's result."""
        if request.route is None:
            return tensors_response(self._name, request, result, response_headers, headers)
        return rows_response(self._name, result, response_headers, event, headers)

    async def _read_and_run(self, request: Request, ctx: Context) -> tuple[Any, Headers, Any]:
        headers = request.headers
        body, event, explain = self.read(request, headers)
        return (*await self.run_async(body, headers, ctx.metrics, explain), event)

    def _call(self, body: Any, headers: Headers, explain: bool) -> Any:
        """Calls a model that overrides `__call__`."""
        if not callable(self._model):
            raise ValueError(f"Model of type {type(self._model).__name__} does not support inference")
        return self._model(body, headers=headers, verb=InferenceVerb.EXPLAIN if explain else InferenceVerb.PREDICT)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._options.threads, thread_name_prefix=f"kserve-{self._name}")
        return self._threads


def _with_headers(returned: Any) -> tuple[Any, Headers]:
    """Returns result and headers of a `__call__` of either dialect."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned
    return returned, {}


def _rebuild(model: Any, name: str, options: BindOptions, config: Any) -> ModelHandler:
    """Returns the handler in another process, whose predictor configuration is not set yet."""
    if context.get_predictor_config() is None:
        context.set_predictor_config(config)
    return ModelHandler(unpack_model(model) if isinstance(model, PackedModel) else model, name, options)
