"""Has deployments compute: calls of their models, in parts where that is quicker, and what it means if they fail."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock import (
    Cancelled,
    Context,
    NotFound,
    Overloaded,
    PenstockError,
    Timeout,
    TooLarge,
    Unavailable,
)
from penstock.compat.modelbit._function.runner import Answer, Runner
from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["Asked", "Computed", "compute", "failed", "late"]


@dataclass
class Computed:
    """What came of a request."""

    body: bytes
    status: int = 200
    rows: list[bytes] = field(default_factory=list)
    runtimes: list[float] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """What went wrong; None if nothing did."""
        if self.status < 400:
            return None
        return str(json.loads(self.body).get("error"))


@dataclass(frozen=True)
class Asked:
    """A request, and how it is computed."""

    body: bytes
    seconds: float
    """When it is given up."""
    single: bool = False
    log: bool = False
    sent: asyncio.Event | None = None
    """Is set once its deployment has it: until then it is given up if its caller leaves, then by time alone."""


async def compute(deployment: Deployment, runner: Runner | None, asked: Asked, ctx: Context) -> Computed:
    """Has a deployment answer a request. Whatever goes wrong is an answer too.

    Args:
        deployment: Which.
        runner: What runs its function in this process; None for one that runs elsewhere.
        asked: The request.
        ctx: Whose models are asked.
    """
    told: dict[str, bool | int | str] = {"token": deployment.token, "single": asked.single, "log": asked.log}
    if runner is not None:
        wanted = [_here(runner, asked.body, told)]
    elif deployment.alone:
        return _failure(f"deployment {deployment.name!r} is not loaded", 503)
    else:
        wanted = _elsewhere(deployment, asked.body, told, ctx)
    try:
        begun = [asyncio.ensure_future(one) for one in wanted]
        if asked.sent is not None:
            # By then each has run up to where it waits.
            await asyncio.sleep(0)
            asked.sent.set()
        done = await asyncio.wait_for(asyncio.gather(*begun), asked.seconds)
    except asyncio.TimeoutError:
        return late(deployment, asked.seconds)
    except PenstockError as error:
        return failed(error)
    answers = [one for one, _ in done]
    refused = next((one for one in answers if one.status >= 400), None)
    if refused is not None:
        computed = Computed(refused.body, refused.status)
    elif len(answers) > 1:
        computed = Computed(b'{"data":[%b]}' % b",".join(one.body for one in answers if one.body))
    else:
        computed = Computed(answers[0].body)
    computed.rows = [one.record for one in answers]
    computed.runtimes = [seconds for _, seconds in done]
    return computed


_Part = Coroutine[Any, Any, tuple[Answer, float]]
"""An answer on its way, which comes with how long it took."""


async def _here(runner: Runner, body: bytes, told: dict[str, bool | int | str]) -> tuple[Answer, float]:
    began = time.monotonic()
    if runner.is_async:
        answer = await runner.answer_later(body, told)
    else:
        answer = (await asyncio.to_thread(runner.answer, [body], [told]))[0]
    return answer, time.monotonic() - began


def _elsewhere(deployment: Deployment, body: bytes, told: dict[str, bool | int | str], ctx: Context) -> list[_Part]:
    """By the deployment's own model; in parts, if that is quicker."""
    parts = 0 if told["single"] else deployment.parts(body)
    peer = ctx.models[deployment.model, str(deployment.version)]
    sent = np.empty(1, object)
    sent[0] = body
    array = sent.reshape(1, 1) if deployment.joins else sent

    async def part(**more: int) -> tuple[Answer, float]:
        began = time.monotonic()
        given = await peer.with_parameters(**told, **more).aio(body=array)
        found = {name: one.reshape(-1)[0] for name, one in given.items()}
        answer = Answer(bytes(found["answer"]), int(found["status"]), bytes(found["record"]))
        return answer, time.monotonic() - began

    return [part(part=one, parts=parts) for one in range(parts)] if parts else [part()]


def late(deployment: Deployment, seconds: float) -> Computed:
    """The answer where a deployment took too long."""
    stopped = "" if deployment.here else ", and was stopped"
    return _failure(f"deployment {deployment.name!r} did not answer within {seconds:g} seconds{stopped}", 408)


def failed(error: PenstockError) -> Computed:
    """The answer where a deployment's model could not compute."""
    return _failure(str(error), _status(error))


def _failure(text: str, status: int) -> Computed:
    """An answer that says what went wrong."""
    return Computed(json.dumps({"error": text}).encode(), status)


def _status(error: PenstockError) -> int:
    """What callers are told. Vendors' clients ask again after 429 and 5xx, so these are for what may go better then."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 400


_STATUS: tuple[tuple[type[PenstockError], int], ...] = (
    (Overloaded, 429),
    (Unavailable, 503),
    (Timeout, 408),
    (Cancelled, 408),
    (NotFound, 404),
    (TooLarge, 413),
)
