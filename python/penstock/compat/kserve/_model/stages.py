"""The stages of a model: which of them it has, and how they are run one after the other."""

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

from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.compat.kserve.model import Model

__all__ = ["Stages", "Times", "check_container", "is_async"]

Headers = dict[str, str]
Stage = Callable[..., Any]


class Times:
    """How long each stage took, in seconds; None for one that was not run."""

    __slots__ = ("explain", "postprocess", "predict", "preprocess")

    def __init__(self) -> None:
        self.preprocess: float | None = None
        self.explain: float | None = None
        self.predict: float | None = None
        self.postprocess: float | None = None


class Stages:
    """The stages of one model, looked up once. Those that a model leaves as they are cost nothing.

    Args:
        model: The model.
        base: The class whose own stages are the identity, and whose `validate` looks at the protocol only.
    """

    def __init__(self, model: Model, base: type) -> None:
        self.preprocess = _own(model, "preprocess", base)
        self.postprocess = _own(model, "postprocess", base)
        self.predict: Stage = model.predict
        self.explain: Stage = model.explain
        self.validate = _own(model, "validate", base)
        self._protocol = model.protocol
        self.with_headers = model.required_response_headers
        self.waits = any(
            stage is not None and is_async(stage) for stage in (self.preprocess, self.postprocess, self.predict)
        )
        stages = (self.preprocess, self.postprocess, self.predict, self.explain)
        self._plain = [stage for stage in stages if stage is not None and not is_async(stage)]

    def run(self, body: Any, headers: Headers | None, times: Times, *, explain: bool = False) -> tuple[Any, Headers]:
        """Runs the stages on this thread. What is to be awaited after all runs on a loop in the background.

        Args:
            body: The request.
            headers: Its headers, by name in lower case.
            times: Is told how long each stage took.
            explain: Whether it is explained, not predicted.

        Returns:
            What the model answers, and the headers that it wants to go with it.
        """
        told: Headers = {}
        rest = (headers, told) if self.with_headers else (headers,)
        if self.preprocess is not None:
            begun = perf_counter()
            try:
                body = background_loop.finished(self.preprocess(body, headers))
            finally:
                times.preprocess = perf_counter() - begun
        body = self.checked(body)
        begun = perf_counter()
        if explain:
            try:
                result = background_loop.finished(self.explain(body, headers))
            finally:
                times.explain = perf_counter() - begun
        else:
            try:
                result = background_loop.finished(self.predict(body, *rest))
            finally:
                times.predict = perf_counter() - begun
        if self.postprocess is not None:
            begun = perf_counter()
            try:
                result = background_loop.finished(self.postprocess(result, *rest))
            finally:
                times.postprocess = perf_counter() - begun
        return result, told

    async def wait(
        self,
        body: Any,
        headers: Headers | None,
        times: Times,
        *,
        explain: bool = False,
        threads: Executor | None = None,
    ) -> tuple[Any, Headers]:
        """As `run`, on the running loop; plain stages go to the threads, if there are any."""
        told: Headers = {}
        rest = (headers, told) if self.with_headers else (headers,)
        if self.preprocess is not None:
            begun = perf_counter()
            try:
                body = await self._awaited(self.preprocess, threads, body, headers)
            finally:
                times.preprocess = perf_counter() - begun
        body = self.checked(body)
        begun = perf_counter()
        if explain:
            try:
                result = await self._awaited(self.explain, threads, body, headers)
            finally:
                times.explain = perf_counter() - begun
        else:
            try:
                result = await self._awaited(self.predict, threads, body, *rest)
            finally:
                times.predict = perf_counter() - begun
        if self.postprocess is not None:
            begun = perf_counter()
            try:
                result = await self._awaited(self.postprocess, threads, result, *rest)
            finally:
                times.postprocess = perf_counter() - begun
        return result, told

    def checked(self, payload: Any) -> Any:
        """What `validate` makes of what is to be computed."""
        if self.validate is not None:
            return self.validate(payload)
        if type(payload) is dict:
            check_container(self._protocol, payload)
        return payload

    async def _awaited(self, stage: Stage, threads: Executor | None, *arguments: Any) -> Any:
        """What a stage gives. A plain one runs on a thread, if there are any."""
        if threads is not None and stage in self._plain:
            call = partial(contextvars.copy_context().run, stage, *arguments)
            returned = await asyncio.get_running_loop().run_in_executor(threads, call)
        else:
            returned = stage(*arguments)
        # What is usual first: the question for all that can be awaited takes longer.
        if type(returned) is CoroutineType or isinstance(returned, Awaitable):
            returned = await returned
        return returned


_CONTAINERS = {"v1": "instances", "v2": "inputs"}
_LIST: list[Any] = []


def check_container(protocol: str, payload: Any) -> None:
    """Looks whether the rows or tensors of a request are a list, as its protocol has them.

    Raises:
        InvalidInput: they are not.
    """
    name = _CONTAINERS.get(protocol)
    if name is not None and isinstance(payload, dict) and not isinstance(payload.get(name, _LIST), list):
        raise InvalidInput(f'Expected "{name}" to be a list')


def is_async(stage: Any) -> bool:
    """Whether calling it gives something to be awaited, as far as one can see."""
    while isinstance(stage, partial):
        stage = stage.func
    if inspect.iscoroutinefunction(stage):
        return True
    return callable(stage) and inspect.iscoroutinefunction(type(stage).__call__)


def _own(model: Any, name: str, base: type) -> Stage | None:
    """A model's method; None if it is the base's."""
    if name not in vars(model) and getattr(type(model), name, None) is getattr(base, name):
        return None
    found: Stage = getattr(model, name)
    return found
