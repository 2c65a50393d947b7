"""Instances of a bound model. Each has a callable and a thread, and an event loop if the callable is async."""

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
from penstock.compat.pytriton._errors import CAUGHT, ErrorTranslator
from penstock.compat.pytriton._model import callable_kind, single_response
from penstock.compat.pytriton._request import request_spans, split_requests
from penstock.compat.pytriton._response import ResponseBuilder
from penstock.compat.pytriton.decorators._context import InstanceContext, TritonContext, instance_context
from penstock.compat.pytriton.model_config.common import ModelWarmup, generate_warmup_requests
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig
from penstock.compat.pytriton.proxy.types import Request

__all__ = [
    "AsyncInstance",
    "BatchInstance",
    "Instance",
    "InstanceSpec",
    "SharedState",
    "StreamingInstance",
    "SyncInstance",
]

logger = logging.getLogger(__name__)

Outputs = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class InstanceSpec:
    """Callable and configuration of one instance."""

    callable: Callable[..., Any]
    context: TritonContext
    config: TritonModelConfig
    errors: ErrorTranslator


@dataclass(frozen=True)
class SharedState:
    """State that all instances of a model share."""

    names: tuple[str, ...]
    """Names of the inputs."""
    batching: bool
    """Tensors have a batch axis."""
    response_builder: ResponseBuilder
    warmup: tuple[ModelWarmup, ...]
    specs: Iterator[InstanceSpec]
    """Endless cycle of specs: each new instance takes the next one."""
    lock: threading.Lock
    """Protects `specs`."""


class Instance:
    """Base class of the kinds of instances."""

    shared: ClassVar[SharedState]

    def __init__(self) -> None:
        with self.shared.lock:
            spec = next(self.shared.specs)
        self.callable, self.errors, self.config = spec.callable, spec.errors, spec.config
        # The value lives as long as the thread. Tasks of the thread's event loop inherit it.
        instance_context.set(InstanceContext(spec.callable, spec.context, spec.config))

    def requests(self, arrays: tuple[Any, ...], ctx: Context) -> list[Request]:
        """Returns the requests of a batch."""
        return split_requests(self.shared.names, arrays, ctx, batching=self.shared.batching)

    def warmup_requests(self) -> Iterator[list[Request]]:
        """Yields the warm-up requests, each as a list of one."""
        try:
            batches = generate_warmup_requests(self.shared.warmup, self.config.inputs or (), self.config.outputs or ())
        except Exception:
            logger.warning("model %r: the warm-up data cannot be generated", self.config.model_name, exc_info=True)
            return
        for inputs in batches:
            # The generated data has a batch axis, even if the model has none.
            yield [Request(inputs if self.shared.batching else {name: data[0] for name, data in inputs.items()}, {})]

    def warmup_failed(self) -> None:
        """Logs a failed warm-up request. The model serves all the same."""
        logger.warning("model %r: a warm-up request failed", self.config.model_name, exc_info=True)


class SyncInstance(Instance):
    """Instance of a plain callable, which receives a list of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: asyncio.AbstractEventLoop | None = None
        for requests in self.warmup_requests():
            try:
                self.resolve(self.callable(requests))
            except Exception:
                self.warmup_failed()

    def __call__(self, *arrays: Any, ctx: Context) -> Answers:
        requests = self.requests(arrays, ctx)
        try:
            with request_spans(requests, ctx):
                return self.shared.response_builder.responses(self.resolve(self.callable(requests)), requests)
        except CAUGHT as raised:
            error = self.errors.translate(raised)
        raise error

    def resolve(self, returned: Any) -> Any:
        """Returns the single response of a return value: plain, yielded or awaited."""
        if inspect.isgenerator(returned):
            return single_response.from_generator(returned, self.config.model_name)
        if inspect.isawaitable(returned) or inspect.isasyncgen(returned):
            # For example, a plain function that returns the coroutine of another function.
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
            return self.loop.run_until_complete(single_response.resolve(returned, self.config.model_name))
        return returned

    def close(self) -> None:
        """Closes the event loop, if there is one."""
        if self.loop is not None:
            self.loop.close()


class BatchInstance(Instance):
    """Instance of a function inside `batch`, which receives the arrays of a batch directly."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = callable_kind.function_inside_batch(self.callable)
        for requests in self.warmup_requests():
            try:
                returned = self.callable(requests)
                if inspect.isgenerator(returned):
                    single_response.from_generator(returned, self.config.model_name)
            except Exception:
                self.warmup_failed()

    def __call__(self, *arrays: Any) -> Outputs:
        inputs = {name: array for name, array in zip(self.shared.names, arrays, strict=True) if array is not None}
        rows = len(next(iter(inputs.values())))
        try:
            returned = self.inner(**inputs)
            if inspect.isgenerator(returned):
                returned = single_response.from_generator(returned, self.config.model_name)
            return self.shared.response_builder.batch(returned, rows)
        except CAUGHT as raised:
            error = self.errors.translate(raised)
        raise error


class AsyncInstance(Instance):
    """Instance of an async callable, with many concurrent calls."""

    def __init__(self) -> None:
        super().__init__()
        self.warmup_task = asyncio.ensure_future(self.run_warmup())

    async def run_warmup(self) -> None:
        """Runs the warm-up requests. Other requests wait for the end of it."""
        for requests in self.warmup_requests():
            try:
                await single_response.resolve(self.callable(requests), self.config.model_name)
            except Exception:
                self.warmup_failed()

    async def __call__(self, *arrays: Any, ctx: Context) -> Answers:
        if not self.warmup_task.done():
            await asyncio.shield(self.warmup_task)
        requests = self.requests(arrays, ctx)
        try:
            with request_spans(requests, ctx):
                returned = await single_response.resolve(self.callable(requests), self.config.model_name)
                return self.shared.response_builder.responses(returned, requests)
        except CAUGHT as raised:
            if isinstance(raised, asyncio.CancelledError) and ctx.cancelled:
                raise
            error = self.errors.translate(raised)
        raise error

    async def close(self) -> None:
        """Cancels a warm-up that is still running."""
        await _cancel(self.warmup_task)


class StreamingInstance(Instance):
    """Instance of a decoupled callable, with many concurrent streams.

    Plain generators run on one thread of the instance, which alternates between their responses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.thread = None if callable_kind.is_async(self.callable) else ThreadPoolExecutor(1, "pytriton-stream")
        self.warmup_task = asyncio.ensure_future(self.run_warmup())

    async def run_warmup(self) -> None:
        """Runs the warm-up requests. Other requests wait for the end of it."""
        for requests in self.warmup_requests():
            try:
                async for _ in self.responses(requests):
                    pass
            except Exception:
                self.warmup_failed()

    async def __call__(self, *arrays: Any, ctx: Context) -> AsyncGenerator[Answers, None]:
        if not self.warmup_task.done():
            await asyncio.shield(self.warmup_task)
        requests = self.requests(arrays, ctx)
        responses = self.responses(requests)
        try:
            with request_spans(requests, ctx):
                async for response in responses:
                    yield self.shared.response_builder.responses(response, requests)
            return
        except CAUGHT as raised:
            if isinstance(raised, asyncio.CancelledError) and ctx.cancelled:
                raise
            error = self.errors.translate(raised)
        finally:
            await responses.aclose()
        raise error

    async def responses(self, requests: list[Request]) -> AsyncGenerator[Any, None]:
        """Yields each list that the callable yields, or the single list that it returns."""
        returned = await self.run_blocking(self.callable, requests)
        if inspect.isawaitable(returned):
            returned = await returned
        if inspect.isasyncgen(returned):
            async for response in returned:
                yield response
        elif inspect.isgenerator(returned):
            try:
                while (response := await self.run_blocking(next, returned, _EXHAUSTED)) is not _EXHAUSTED:
                    yield response
            finally:
                await self.run_blocking(returned.close)
        else:
            yield returned

    async def run_blocking(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls plain code without blocking the event loop."""
        if self.thread is None:
            return function(*args)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.thread, context.run, function, *args)

    async def close(self) -> None:
        """Cancels the warm-up, and stops the thread if there is one."""
        await _cancel(self.warmup_task)
        if self.thread is not None:
            self.thread.shutdown(wait=False)


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


_EXHAUSTED: Any = object()
