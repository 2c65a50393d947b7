"""Stages of a model: lookup and execution, one after the other."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve._metrics.stage_times import StageTimes
from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.compat.kserve._model.base import StagedModel

__all__ = ["Stages", "check_container", "is_async"]

Headers = dict[str, str]
Stage = Callable[..., Any]
Result = tuple[Any, Headers]
"""A model's result, and the response headers that it set."""


class Stages:
    """The stages of one model, looked up once. Stages that a model does not override cost nothing.

    Args:
        model: The model.
        base: The class whose own stages are the identity, and whose `validate` checks the container only.
    """

    def __init__(self, model: StagedModel, base: type) -> None:
        self.preprocess = _overridden(model, "preprocess", base)
        self.postprocess = _overridden(model, "postprocess", base)
        self.predict: Stage = model.predict
        self.explain: Stage = model.explain
        self.validate = _overridden(model, "validate", base)
        self._protocol = model.protocol
        self.with_headers = model.required_response_headers
        self.any_async = any(
            stage is not None and is_async(stage) for stage in (self.preprocess, self.postprocess, self.predict)
        )
        stages = (self.preprocess, self.postprocess, self.predict, self.explain)
        self._plain = [stage for stage in stages if stage is not None and not is_async(stage)]

    def run(self, body: Any, headers: Headers | None, times: StageTimes, *, explain: bool = False) -> Result:
        """Runs the stages on this thread; awaitables that a plain stage returns run on the background loop.

        Args:
            body: The request.
            headers: The request's headers, by name in lower case.
            times: Receives the duration of each stage.
            explain: Whether to explain instead of predict.

        Returns:
            The model's result, and the response headers that it set.
        """
        response_headers: Headers = {}
        rest = (headers, response_headers) if self.with_headers else (headers,)
        if self.preprocess is not None:
            started = perf_counter()
            try:
                body = background_loop.resolve(self.preprocess(body, headers))
            finally:
                times.preprocess = perf_counter() - started
        body = self.validated(body)
        started = perf_counter()
        if explain:
            try:
                result = background_loop.resolve(self.explain(body, headers))
            finally:
                times.explain = perf_counter() - started
        else:
            try:
                result = background_loop.resolve(self.predict(body, *rest))
            finally:
                times.predict = perf_counter() - started
        if self.postprocess is not None:
            started = perf_counter()
            try:
                result = background_loop.resolve(self.postprocess(result, *rest))
            finally:
                times.postprocess = perf_counter() - started
        return result, response_headers

    async def run_async(
        self,
        body: Any,
        headers: Headers | None,
        times: StageTimes,
        *,
        explain: bool = False,
        threads: Executor | None = None,
    ) -> Result:
        """Runs the stages on the running loop, as `run` does; plain stages run on `threads` if given."""
        response_headers: Headers = {}
        rest = (headers, response_headers) if self.with_headers else (headers,)
        if self.preprocess is not None:
            started = perf_counter()
            try:
                body = await self._call(self.preprocess, threads, body, headers)
            finally:
                times.preprocess = perf_counter() - started
        body = self.validated(body)
        started = perf_counter()
        if explain:
            try:
                result = await self._call(self.explain, threads, body, headers)
            finally:
                times.explain = perf_counter() - started
        else:
            try:
                result = await self._call(self.predict, threads, body, *rest)
            finally:
                times.predict = perf_counter() - started
        if self.postprocess is not None:
            started = perf_counter()
            try:
                result = await self._call(self.postprocess, threads, result, *rest)
            finally:
                times.postprocess = perf_counter() - started
        return result, response_headers

    def validated(self, payload: Any) -> Any:
        """Returns the payload that `validate` returns."""
        if self.validate is not None:
            return self.validate(payload)
        if type(payload) is dict:
            check_container(self._protocol, payload)
        return payload

    async def _call(self, stage: Stage, threads: Executor | None, *arguments: Any) -> Any:
        """Returns a stage's result; a plain stage runs on `threads` if given."""
        if threads is not None and stage in self._plain:
            call = partial(contextvars.copy_context().run, stage, *arguments)
            returned = await asyncio.get_running_loop().run_in_executor(threads, call)
        else:
            returned = stage(*arguments)
        # Coroutines first: the check for any awaitable takes longer.
        if type(returned) is CoroutineType or isinstance(returned, Awaitable):
            returned = await returned
        return returned


_CONTAINERS = {"v1": "instances", "v2": "inputs"}
_LIST: list[Any] = []


def check_container(protocol: str, payload: Any) -> None:
    """Checks that the rows or tensors of a request are a list.

    Raises:
        InvalidInput: they are not.
    """
    name = _CONTAINERS.get(protocol)
    if name is not None and isinstance(payload, dict) and not isinstance(payload.get(name, _LIST), list):
        raise InvalidInput(f'Expected "{name}" to be a list')


def is_async(stage: Any) -> bool:
    """Returns whether calling a stage returns an awaitable, as far as its declaration shows."""
    while isinstance(stage, partial):
        stage = stage.func
    if inspect.iscoroutinefunction(stage):
        return True
    return callable(stage) and inspect.iscoroutinefunction(type(stage).__call__)


def _overridden(model: Any, name: str, base: type) -> Stage | None:
    """Returns a model's method; None if it is the base's."""
    if name not in vars(model) and getattr(type(model), name, None) is getattr(base, name):
        return None
    method: Stage = getattr(model, name)
    return method
