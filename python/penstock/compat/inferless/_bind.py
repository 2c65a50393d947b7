"""The model of an app. Its processes know it by a name in this module that says all of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import penstock
from penstock import Batching, HandlerError, Model, PenstockError, Processes, Request, Response
from penstock.compat.inferless._app.app_instance import Kept
from penstock.compat.inferless._app.modules import Modules
from penstock.compat.inferless._app.serve_call import Answering
from penstock.compat.inferless._app.state import State, StateFile
from penstock.compat.inferless._app.streams import pieces_of
from penstock.compat.inferless._examples import curl_of
from penstock.compat.inferless._request import asked_of
from penstock.compat.inferless._response import arrays_of, joined_rows
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.schema import Schema, Tensor

__all__ = ["model_of", "routes_of"]

_PREFIX = "app_"
_GRACE = 5.0
"""Seconds that a call which is to end has left, before its process is killed."""


def model_of(settings: Settings, state: State, *, is_async: bool, modules: Modules | None = None) -> Model[..., Any]:
    """The model that serves an app: in this process, with these modules, or in processes of its own.

    One of these is put into this module under a name that says all of it.
    """
    if modules is not None:
        return _made(settings, state.schema, is_async=is_async, modules=modules)
    told = json.dumps({"settings": settings.to_text(), "is_async": is_async, "state": settings.state})
    name = _PREFIX + told.encode().hex()
    made = _made(settings, state.schema, is_async=is_async)
    setattr(sys.modules[__name__], name, made)
    return made


def __getattr__(name: str) -> Any:
    # In a process that is to load it.
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    told = json.loads(bytes.fromhex(name.removeprefix(_PREFIX)))
    settings = Settings.from_text(told["settings"])
    return _made(settings, StateFile(Path(settings.state)).read().schema, is_async=told["is_async"])


def routes_of(name: str) -> list[str]:
    """The routes of an app that its processes answer."""
    paths = [f"/v2/models/{name}", f"/v2/models/{name}/versions/1"]
    verbs = ("infer", "generate", "generate_stream")
    return [
        *(f"POST {path}/{verb}" for path in paths for verb in verbs),
        *(f"POST /v2/repository/models/{name}/{verb}" for verb in ("load", "unload")),
    ]


def _processes(settings: Settings) -> Processes:
    limit = settings.timeout + _GRACE if settings.timeout else None
    return Processes(
        settings.workers,
        hang_after=limit,
        abandoned_after=limit,
        gpus=[one for one in settings.gpus.split(",") if one],
        env=settings.env,
    )


def _made(settings: Settings, schema: Schema, *, is_async: bool, modules: Modules | None = None) -> Model[..., Any]:
    together = settings.container_concurrency if is_async else settings.threads
    handler: type
    batching = None
    if schema.streaming:
        handler = _Streaming
    elif schema.batch_size:
        handler, batching = _Batched, Batching(schema.batch_size, max_delay=schema.batch_window / 1000)
    elif together > 1:
        handler, batching = _Together, Batching(together)
    else:
        handler = _Single
    tell = staticmethod(lambda url: curl_of(settings.name, schema, url, key=bool(settings.api_key)))
    # A class of its own: each instance is built without arguments.
    built = type("InferlessApp", (handler,), {"settings": settings, "modules": modules, "curl": tell, "__doc__": ""})
    return Model(
        built,
        name=settings.name,
        description=_description(settings, schema),
        routes=routes_of(settings.name),
        inputs=_shown(schema.inputs),
        outputs=_shown(schema.outputs),
        instances=_processes(settings) if modules is None else 1,
        max_queue=settings.max_queue,
        batching=batching,
    )


def _shown(tensors: Sequence[Tensor]) -> list[penstock.Tensor] | None:
    """What metadata over gRPC and the page at /docs show; None for any tensors."""
    return [penstock.Tensor(one.name, one.datatype, one.shape, optional=not one.required) for one in tensors] or None


def _description(settings: Settings, schema: Schema) -> str:
    """What the server's documentation shows of an app: its inputs, and how it is called."""
    lines = [
        f"- `{one.name}`: {one.datatype} of shape {list(one.shape)}{'' if one.required else ', optional'}"
        for one in schema.inputs
    ]
    curl = curl_of(settings.name, schema, key=bool(settings.api_key))
    return "\n".join([f"The Inferless app {settings.name}.", "", *lines, "", "```sh", curl, "```"])


class _Instance(Answering):
    """An app that is loaded."""

    settings: Settings
    modules: Modules | None

    def __init__(self) -> None:
        self.kept = Kept(self.settings, self.modules)
        super().__init__(self.settings)

    def close(self) -> None:
        """Has the app finalize, and lets nothing of that fail."""
        self.kept.close()

    def _compute(self, inputs: Any) -> Any:
        """What `infer` gives for inputs, within the time that it has."""
        kept = self.kept
        return kept.compute(lambda: kept.app.wait(kept.app.infer(kept.wrapped(inputs))))


class _Single(_Instance):
    """Answers one request in each call."""

    def __call__(self, request: Request) -> Response:
        """Answers a request."""
        return self.guarded(request, self._answer)

    def _answer(self, request: Request) -> Response:
        reader = self.kept.reader
        asked = asked_of(request, reader)
        values = reader.one(asked.given) if asked.values is None else asked.values
        arrays = arrays_of(self._compute(values), self.kept.schema)
        return self.whole(asked, arrays)


class _Together(_Instance):
    """Answers several requests at once: on an event loop, or on threads for which the app is made."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="inferless")

    def __call__(self, requests: list[Request]) -> list[Response | Exception]:
        """Answers requests, each by itself."""
        asked = [self.prepared(request) for request in requests]
        answers = self.kept.compute(lambda: self._all(asked))
        return [self.finished(one, answer) for one, answer in zip(asked, answers, strict=True)]

    def _all(self, asked: Sequence[Any]) -> list[Any]:
        app = self.kept.app
        if not app.is_async:
            return list(self._pool.map(self._one, asked))

        async def run(one: Any) -> Any:
            if not isinstance(one, tuple):
                return one
            try:
                return await app.infer(self.kept.wrapped(one[1]))
            except Exception as error:
                return self.failure(error)

        async def run_all() -> list[Any]:
            import asyncio

            return await asyncio.gather(*map(run, asked))

        found: list[Any] = app.wait(run_all())
        return found

    def _one(self, one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        try:
            return self.kept.app.infer(self.kept.wrapped(one[1]))
        except Exception as error:
            return self.failure(error)


class _Batched(_Instance):
    """Has `infer` compute the rows of several requests in one call: it takes and returns a list of dicts."""

    def __call__(self, requests: list[Request]) -> list[Response | Exception]:
        """Answers requests of one call."""
        answers: list[Any] = [self.prepared(request, rows=True) for request in requests]
        rows = [row for one in answers if isinstance(one, tuple) for row in one[1][0]]
        if not rows:
            return answers
        try:
            told = self._compute(rows)
        except Exception as error:
            failure = self.failure(error)
            return [failure if isinstance(one, tuple) else one for one in answers]
        given = iter(self._checked(told, len(rows)))
        return [self._regrouped(one, given) if isinstance(one, tuple) else one for one in answers]

    @staticmethod
    def _checked(told: Any, count: int) -> list[Any]:
        if not isinstance(told, (list, tuple)):
            raise HandlerError(f"infer returned a {type(told).__name__}, expected a list of {count} dicts")
        if len(told) != count:
            raise HandlerError(f"infer returned {len(told)} answers for {count} requests")
        return list(told)

    def _regrouped(self, one: Any, given: Iterator[Any]) -> Response | Exception:
        asked, (rows, has_axis) = one
        mine = [next(given) for _ in rows]
        try:
            arrays = [arrays_of(row, self.kept.schema) for row in mine]
            return self.whole(asked, joined_rows(arrays) if has_axis else arrays[0])
        except PenstockError as error:
            return error


class _Streaming(_Instance):
    """Answers in pieces."""

    def __call__(self, request: Request) -> Iterator[Response]:
        """The pieces of an answer to a request."""
        refused = self.refused(request)
        if refused is not None:
            yield refused
            return
        asked = asked_of(request)
        inputs = self.kept.wrapped(self.kept.reader.one(asked.given))
        assert self.kept.thread is not None
        pieces = pieces_of(self.kept.app, self.kept.thread, inputs, self.settings.timeout)
        begun = False
        try:
            for piece in pieces:
                arrays = arrays_of(piece, self.kept.schema)
                yield Response(outputs=arrays) if request.route is None else self.event(asked, arrays)
                begun = True
        except Exception as error:
            # Before the first piece an error has a status of its own; afterwards it is a piece.
            if not begun or request.route is None:
                raise self.failure(error) from error
            yield self.event_of_error(self.failure(error))
        if not begun and request.route is not None:
            yield Response(b"", content_type="text/event-stream")
