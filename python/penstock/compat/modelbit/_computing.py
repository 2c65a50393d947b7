"""Has deployments compute: calls of their models, in parts where that is quicker, and what it means if they fail."""

from __future__ import annotations

import asyncio
import json
import re
import time
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
from penstock.compat.modelbit._deployment import Deployment
from penstock.compat.modelbit._settings import Settings

__all__ = ["Asked", "Computed", "compute", "failure"]

_BATCH = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\[')


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
    """How a request is computed."""

    seconds: float
    single: bool = False
    log: bool = False
    sent: asyncio.Event | None = None
    """Is set once its deployment has it: until then it is given up if its caller leaves, then by time alone."""


async def compute(deployment: Deployment, body: bytes, asked: Asked, settings: Settings, ctx: Context) -> Computed:
    """Has a deployment answer a request. Whatever goes wrong is an answer too."""
    parts = 0 if asked.single else _parts(deployment, body, settings)
    told: dict[str, bool | int | str] = {"token": deployment.token, "single": asked.single, "log": asked.log}
    peer = ctx.models[deployment.model, str(deployment.version)]
    sent = np.empty(1, object)
    sent[0] = body
    array = sent.reshape(1, 1) if _joins(deployment, settings) else sent

    async def part(**more: int) -> tuple[Any, float]:
        began = time.monotonic()
        given = await peer.with_parameters(**told, **more).aio(body=array)
        return {name: one.reshape(-1)[0] for name, one in given.items()}, time.monotonic() - began

    try:
        wanted = [part(part=one, parts=parts) for one in range(parts)] if parts else [part()]
        begun = [asyncio.ensure_future(one) for one in wanted]
        if asked.sent is not None:
            # By then each has run up to where it waits.
            await asyncio.sleep(0)
            asked.sent.set()
        done = await asyncio.wait_for(asyncio.gather(*begun), asked.seconds)
    except asyncio.TimeoutError:
        text = f"deployment {deployment.name!r} did not answer within {asked.seconds:g} seconds, and was stopped"
        return failure(text, 408)
    except PenstockError as error:
        return failure(str(error), _status(error))
    outputs = [one for one, _ in done]
    failed = next((one for one in outputs if int(one["status"]) >= 400), None)
    if failed is not None:
        answer = Computed(bytes(failed["answer"]), int(failed["status"]))
    elif parts:
        rows = b",".join(filter(None, (bytes(one["answer"]) for one in outputs)))
        answer = Computed(b'{"data":[%b]}' % rows)
    else:
        answer = Computed(bytes(outputs[0]["answer"]))
    answer.rows = [bytes(one["record"]) for one in outputs]
    answer.runtimes = [seconds for _, seconds in done]
    return answer


def failure(text: str, status: int) -> Computed:
    """An answer that says what went wrong."""
    return Computed(json.dumps({"error": text}).encode(), status)


def _joins(deployment: Deployment, settings: Settings) -> bool:
    return deployment.columns is not None and settings.join > 1


def _parts(deployment: Deployment, body: bytes, settings: Settings) -> int:
    """How many parts a batch has, each for an instance; 0 for one that stays whole."""
    if settings.workers < 2 or not settings.split_rows or deployment.columns is not None or not _BATCH.match(body):
        return 0
    # Each row begins with a bracket; more of them than rows only make smaller parts.
    parts = min(settings.workers, (body.count(b"[") - 1) // settings.split_rows)
    return parts if parts > 1 else 0


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
