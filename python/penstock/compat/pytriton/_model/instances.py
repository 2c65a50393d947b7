"""The instances of a bound model: each has one callable, a thread, and where it is async an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from penstock import Answers, Context
from penstock.compat.pytriton._errors import CAUGHT, Failures
from penstock.compat.pytriton._model import callable_kind, single_response
from penstock.compat.pytriton._request import requests_of, traced
from penstock.compat.pytriton._response import Results
from penstock.compat.pytriton.decorators._context import Running, TritonContext, running
from penstock.compat.pytriton.model_config.common import ModelWarmup, generate_warmup_requests
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["Answering", "Awaiting", "Batched", "Instance", "Plan", "Streaming", "Turn"]

logger = logging.getLogger(__name__)

Outputs = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Turn:
    """What one instance is given."""

    callable: Callable[..., Any]
    context: TritonContext
    config: TritonModelConfig
    failures: Failures


@dataclass(frozen=True)
class Plan:
    """What all instances of a model share."""

    names: tuple[str, ...]
    """The inputs."""
    batching: bool
    """Whether tensors have a batch axis."""
    results: Results
    warmup: tuple[ModelWarmup, ...]
    turns: Iterator[Turn]
    """What each new instance is given, around and around."""
    lock: threading.Lock
    """Of `turns`."""


class Instance:
    """What all kinds of instances are."""

    plan: ClassVar[Plan]

    def __init__(self) -> None:
        with self.plan.lock:
            turn = next(self.plan.turns)
        self.callable, self.failures, self.config = turn.callable, turn.failures, turn.config
        # It lasts as long as the thread, and the tasks of its event loop have it too.
        running.set(Running(turn.callable, turn.context, turn.config))

    def requests(self, arrays: tuple[Any, ...], ctx: Context) -> list[Request]:
        """The requests of a batch."""
        return requests_of(self.plan.names, arrays, ctx, batching=self.plan.batching)

    def warmups(self) -> Iterator[list[Request]]:
        """What is computed before the model is ready: a list of one request each time."""
        try:
            made = generate_warmup_requests(self.plan.warmup, self.config.inputs or (), self.config.outputs or ())
        except Exception:
            logger.warning("model %r: its warm-up data cannot be made", self.config.model_name, exc_info=True)
            return
        for inputs in made:
            # The data has a batch axis, whatever the model has.
            yield [Request(inputs if self.plan.batching else {name: data[0] for name, data in inputs.items()}, {})]

    def warmup_failed(self) -> None:
        """Tells the log. The model serves all the same."""
        logger.warning("model %r: a warm-up request failed", self.config.model_name, exc_info=True)


class Answering(Instance):
    """Calls a plain callable with a list of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: asyncio.AbstractEventLoop | None = None
        for requests in self.warmups():
            try:
                self.settled(self.callable(requests))
            except Exception:
                self.warmup_failed()

    def __call__(self, *arrays: Any, ctx: Context) -> Answers:
        requests = self.requests(arrays, ctx)
        try:
            with traced(requests, ctx):
                return self.plan.results.answers(self.settled(self.callable(requests)), requests)
        except CAUGHT as raised:
            failure = self.failures.error(raised)
        raise failure

    def settled(self, returned: Any) -> Any:
        """What a callable returned, yielded once, or has awaited."""
        if inspect.isgenerator(returned):
            return single_response.of_generator(returned, self.config.model_name)
        if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
            # Of a plain function that returns another one's coroutine, say.
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
            return self.loop.run_until_complete(single_response.settled(returned, self.config.model_name))
        return returned

    def close(self) -> None:
        """Lets go of the event loop, if there is one."""
        if self.loop is not None:
            self.loop.close()


class Batched(Instance):
    """Calls what `batch` is around with the arrays of a batch, as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = callable_kind.inside_of_batch(self.callable)
        for requests in self.warmups():
            try:
                returned = self.callable(requests)
                if inspect.isgenerator(returned):
                    single_response.of_generator(returned, self.config.model_name)
            except Exception:
                self.warmup_failed()

    def __call__(self, *arrays: Any) -> Outputs:
        inputs = {name: array for name, array in zip(self.plan.names, arrays, strict=True) if array is not None}
        rows = len(next(iter(inputs.values())))
        try:
            returned = self.inner(**inputs)
            if inspect.isgenerator(returned):
                returned = single_response.of_generator(returned, self.config.model_name)
            return self.plan.results.batch(returned, rows)
        except CAUGHT as raised:
            failure = self.failures.error(raised)
        raise failure


class Awaiting(Instance):
    """Awaits an async callable, many calls at once."""

    def __init__(self) -> None:
        super().__init__()
        self.warm = asyncio.ensure_future(self.warm_up())

    async def warm_up(self) -> None:
        """Requests that come meanwhile wait for it."""
        for requests in self.warmups():
            try:
                await single_response.settled(self.callable(requests), self.config.model_name)
            except Exception:
                self.warmup_failed()

    async def __call__(self, *arrays: Any, ctx: Context) -> Answers:
        if not self.warm.done():
            await asyncio.shield(self.warm)
        requests = self.requests(arrays, ctx)
        try:
            with traced(requests, ctx):
                returned = await single_response.settled(self.callable(requests), self.config.model_name)
                return self.plan.results.answers(returned, requests)
        except CAUGHT as raised:
            if isinstance(raised, asyncio.CancelledError) and ctx.cancelled:
                raise
            failure = self.failures.error(raised)
        raise failure

    async def close(self) -> None:
        """Gives up a warm-up that is still under way."""
        await _given_up(self.warm)


class Streaming(Instance):
    """Gives what a callable yields to its callers, many streams at once.

    A plain generator makes its pieces on a thread of its own, in turn with the others of this instance.
    """

    def __init__(self) -> None:
        super().__init__()
        self.thread = None if callable_kind.is_async(self.callable) else ThreadPoolExecutor(1, "pytriton-stream")
        self.warm = asyncio.ensure_future(self.warm_up())

    async def warm_up(self) -> None:
        """Requests that come meanwhile wait for it."""
        for requests in self.warmups():
            try:
                async for _ in self.pieces(requests):
                    pass
            except Exception:
                self.warmup_failed()

    async def __call__(self, *arrays: Any, ctx: Context) -> AsyncGenerator[Answers, None]:
        if not self.warm.done():
            await asyncio.shield(self.warm)
        requests = self.requests(arrays, ctx)
        pieces = self.pieces(requests)
        try:
            with traced(requests, ctx):
                async for piece in pieces:
                    yield self.plan.results.answers(piece, requests)
            return
        except CAUGHT as raised:
            if isinstance(raised, asyncio.CancelledError) and ctx.cancelled:
                raise
            failure = self.failures.error(raised)
        finally:
            await pieces.aclose()
        raise failure

    async def pieces(self, requests: list[Request]) -> AsyncGenerator[Any, None]:
        """Each list that the callable yields, or the one that it returns."""
        returned = await self.computed(self.callable, requests)
        if inspect.isawaitable(returned):
            returned = await returned
        if inspect.isasyncgen(returned):
            async for piece in returned:
                yield piece
        elif inspect.isgenerator(returned):
            try:
                while (piece := await self.computed(next, returned, _END)) is not _END:
                    yield piece
            finally:
                await self.computed(returned.close)
        else:
            yield returned

    async def computed(self, function: Callable[..., Any], *args: Any) -> Any:
        """What plain code returns, without holding up the loop."""
        if self.thread is None:
            return function(*args)
        there = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.thread, there.run, function, *args)

    async def close(self) -> None:
        """Ends its thread, if it has one."""
        await _given_up(self.warm)
        if self.thread is not None:
            self.thread.shutdown(wait=False)


async def _given_up(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


_END: Any = object()
