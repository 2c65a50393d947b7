"""`Served`: a model with all that answers its requests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock import Context, Request, Response
from penstock.compat.kserve import context
from penstock.compat.kserve._metrics.request_metrics import Noted, Reports
from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve._model.handler_kind import calls_itself, checks_health
from penstock.compat.kserve._model.model_transfer import Carried, unpacked
from penstock.compat.kserve._model.stages import Stages, Times
from penstock.compat.kserve._request.errors import failed
from penstock.compat.kserve._request.request_body import rows_of, tensors_of
from penstock.compat.kserve._request.response import is_pieces, one_of, piece_of, rows_answer, tensors_answer
from penstock.compat.kserve.errors import ModelNotReady
from penstock.compat.kserve.metrics import Keeper, recording
from penstock.compat.kserve.model import InferenceVerb, Model

if TYPE_CHECKING:
    from penstock.compat.kserve._request.bind import BindingOptions

__all__ = ["Served"]

Headers = dict[str, str]


class Served:
    """A model with all that answers its requests. It can be sent to another process if its model can.

    Args:
        model: The model.
        name: The name that it is served under.
        options: How it is served.
    """

    def __init__(self, model: Any, name: str, options: BindingOptions) -> None:
        self._model, self._name, self._options = model, name, options
        self._asks_health = checks_health(model)
        self._exact = options.exact_content_types
        self._reports = Reports(model, options.latency_logging)
        self._stages = None if calls_itself(model) else Stages(model, Model)
        self._threads: ThreadPoolExecutor | None = None

    def __reduce__(self) -> Any:
        options = replace(self._options, on_loop=None, life=None, carried=None)
        return _again, (self._options.carried or self._model, self._name, options, context.get_predictor_config())

    def many(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Answers requests one after the other, on this thread."""
        with self.noting(ctx.metrics) as noted:
            return [self.one(request, noted) for request in requests]

    @contextmanager
    def noting(self, kept: Keeper) -> Iterator[Noted]:
        """Where the times go of requests that are answered on this thread together; at the end they are told."""
        noted = self._reports.noted()
        try:
            with recording(kept):
                yield noted
        finally:
            self._reports.tell(noted, kept)

    def one(self, request: Request, noted: Noted) -> Any:
        """Answers a request on this thread."""
        try:
            headers = request.headers
            body, event, explain = self.arrived(request, headers)
            result, told = self.run(body, headers, noted, explain)
            if is_pieces(result):
                result = one_of(request, background_loop.collected(result))
            return self.given(request, result, told, event, headers)
        except Exception as raised:
            return failed(raised, over_grpc=request.protocol == "grpc")

    async def answer(self, request: Request, ctx: Context) -> Any:
        """Answers a request on an event loop."""
        try:
            result, told, event = await self._computed(request, ctx)
            if is_pieces(result):
                result = one_of(request, [piece async for piece in result])
            return self.given(request, result, told, event, request.headers)
        except Exception as raised:
            return failed(raised, over_grpc=request.protocol == "grpc")

    async def together(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Answers requests on an event loop, all at once."""
        return [*await asyncio.gather(*(self.answer(request, ctx) for request in requests))]

    async def pieces(self, request: Request, ctx: Context) -> AsyncIterator[Any]:
        """Answers a request on an event loop, piece by piece if the model does so."""
        try:
            result, told, event = await self._computed(request, ctx)
            if not is_pieces(result):
                yield self.given(request, result, told, event, request.headers)
                return
            async for piece in result:
                yield piece_of(self._name, request, piece)
        except Exception as raised:
            yield failed(raised, over_grpc=request.protocol == "grpc")

    def arrived(self, request: Request, headers: Headers) -> tuple[Any, Any, bool]:
        """What the model is called with, the event that it came in, and whether it is to be explained.

        Raises:
            InvalidInput: it is no request of its protocol.
            ModelNotReady: the model does not answer now.
        """
        if not self._asks_health and not self._model.ready:
            raise ModelNotReady(self._name)
        route = request.route
        if route is None:
            return tensors_of(request, self._name), None, False
        body, event = rows_of(request, headers, exact=self._exact)
        return body, event, route.endswith(":explain")

    def run(self, body: Any, headers: Headers, noted: Noted, explain: bool) -> tuple[Any, Headers]:
        """What the model answers, and the headers that it wants, computed on this thread."""
        if self._asks_health and not background_loop.finished(self._model.healthy()):
            raise ModelNotReady(self._name)
        stages = self._stages
        if stages is None:
            return _answered(background_loop.finished(self._call(body, headers, explain)))
        times = Times()
        try:
            answered = stages.run(body, headers, times, explain=explain)
        finally:
            noted.add(times)
        noted.answered(times, headers)
        return answered

    async def wait(self, body: Any, headers: Headers, kept: Keeper, explain: bool) -> tuple[Any, Headers]:
        """As `run`, on the running loop."""
        if self._asks_health:
            healthy = self._model.healthy()
            if not (await healthy if inspect.isawaitable(healthy) else healthy):
                raise ModelNotReady(self._name)
        stages = self._stages
        if stages is None:
            given = self._call(body, headers, explain)
            return _answered(await given if isinstance(given, Awaitable) else given)
        times = Times()
        try:
            answered = await stages.wait(body, headers, times, explain=explain, threads=self._pool())
        finally:
            noted = self._reports.soon(kept)
            noted.add(times)
        noted.answered(times, headers)
        return answered

    def given(self, request: Request, result: Any, told: Headers, event: Any, headers: Headers) -> Response:
        """What is sent of what the model answered."""
        if request.route is None:
            return tensors_answer(self._name, request, result, told, headers)
        return rows_answer(self._name, result, told, event, headers)

    async def _computed(self, request: Request, ctx: Context) -> tuple[Any, Headers, Any]:
        headers = request.headers
        body, event, explain = self.arrived(request, headers)
        return (*await self.wait(body, headers, ctx.metrics, explain), event)

    def _call(self, body: Any, headers: Headers, explain: bool) -> Any:
        """What a model gives that answers by a `__call__` of its own."""
        if not callable(self._model):
            raise ValueError(f"Model of type {type(self._model).__name__} does not support inference")
        return self._model(body, headers=headers, verb=InferenceVerb.EXPLAIN if explain else InferenceVerb.PREDICT)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._options.threads, thread_name_prefix=f"kserve-{self._name}")
        return self._threads


def _answered(given: Any) -> tuple[Any, Headers]:
    """An answer and its headers, of what a model of either dialect gave."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict):
        return given
    return given, {}


def _again(model: Any, name: str, options: BindingOptions, config: Any) -> Served:
    """The same in another process, where nobody has said yet where the predictor is."""
    if context.get_predictor_config() is None:
        context.set_predictor_config(config)
    return Served(unpacked(model) if isinstance(model, Carried) else model, name, options)
