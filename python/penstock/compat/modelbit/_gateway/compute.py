"""Calls of deployments' models, in parallel parts where that is faster, and the mapping of errors to statuses."""

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
from penstock.compat.modelbit._function.runner import Runner
from penstock.compat.modelbit._response import FunctionResponse
from penstock.compat.modelbit._spec.deployment import Deployment

__all__ = ["ComputeRequest", "ComputeResult", "compute", "error_result", "timeout_result"]


@dataclass
class ComputeResult:
    """The JSON body and status of a response, with the data of its log entry."""

    body: bytes
    status: int = 200
    rows: list[bytes] = field(default_factory=list)
    runtimes: list[float] = field(default_factory=list)
    """Seconds of each part."""

    @property
    def error(self) -> str | None:
        """The error text; None on success."""
        if self.status < 400:
            return None
        return str(json.loads(self.body).get("error"))


@dataclass(frozen=True)
class ComputeRequest:
    """A request body and its call options."""

    body: bytes
    timeout: float
    """Seconds."""
    single: bool = False
    log: bool = False
    sent: asyncio.Event | None = None
    """Set once the deployment has the request; from then on only the timeout cancels it, not a client's disconnect."""


async def compute(
    deployment: Deployment, runner: Runner | None, request: ComputeRequest, ctx: Context
) -> ComputeResult:
    """Computes one request. Every failure is returned as an error result.

    Args:
        deployment: The deployment to call.
        runner: Runner of its function in this process; None if the function runs elsewhere.
        request: The request.
        ctx: Context whose models are called.
    """
    options: dict[str, bool | int | str] = {
        "token": deployment.token,
        "single": request.single,
        "log": request.log,
    }
    if runner is not None:
        parts = [_compute_in_process(runner, request.body, options)]
    elif deployment.serves_in_process:
        return _error(f"deployment {deployment.name!r} is not loaded", 503)
    else:
        parts = _compute_on_model(deployment, request.body, options, ctx)
    try:
        tasks = [asyncio.ensure_future(one) for one in parts]
        if request.sent is not None:
            # One turn of the loop runs each task up to its first wait, which is after it was submitted.
            await asyncio.sleep(0)
            request.sent.set()
        done = await asyncio.wait_for(asyncio.gather(*tasks), request.timeout)
    except asyncio.TimeoutError:
        return timeout_result(deployment, request.timeout)
    except PenstockError as error:
        return error_result(error)
    responses = [one for one, _ in done]
    failed = next((one for one in responses if one.status >= 400), None)
    if failed is not None:
        result = ComputeResult(failed.body, failed.status)
    elif len(responses) > 1:
        result = ComputeResult(b'{"data":[%b]}' % b",".join(one.body for one in responses if one.body))
    else:
        result = ComputeResult(responses[0].body)
    result.rows = [one.record for one in responses]
    result.runtimes = [seconds for _, seconds in done]
    return result


_Part = Coroutine[Any, Any, tuple[FunctionResponse, float]]
"""A pending response and its runtime in seconds."""


async def _compute_in_process(
    runner: Runner, body: bytes, options: dict[str, bool | int | str]
) -> tuple[FunctionResponse, float]:
    started = time.monotonic()
    if runner.is_async:
        response = await runner.respond_async(body, options)
    else:
        response = (await asyncio.to_thread(runner.respond, [body], [options]))[0]
    return response, time.monotonic() - started


def _compute_on_model(
    deployment: Deployment, body: bytes, options: dict[str, bool | int | str], ctx: Context
) -> list[_Part]:
    """Calls the deployment's model: once, or once per worker for a large batch."""
    parts = 0 if options["single"] else deployment.part_count(body)
    peer = ctx.models[deployment.model, str(deployment.version)]
    element = np.empty(1, object)
    element[0] = body
    array = element.reshape(1, 1) if deployment.batched else element

    async def compute_part(**part_options: int) -> tuple[FunctionResponse, float]:
        started = time.monotonic()
        outputs = await peer.with_parameters(**options, **part_options).aio(body=array)
        first = {name: one.reshape(-1)[0] for name, one in outputs.items()}
        response = FunctionResponse(bytes(first["answer"]), int(first["status"]), bytes(first["record"]))
        return response, time.monotonic() - started

    return [compute_part(part=one, parts=parts) for one in range(parts)] if parts else [compute_part()]


def timeout_result(deployment: Deployment, seconds: float) -> ComputeResult:
    """Returns the error for a deployment that exceeded its time limit."""
    stopped = "" if deployment.in_process else ", and was stopped"
    return _error(f"deployment {deployment.name!r} did not answer within {seconds:g} seconds{stopped}", 408)


def error_result(error: PenstockError) -> ComputeResult:
    """Returns the error for a deployment whose model failed."""
    return _error(str(error), _status(error))


def _error(text: str, status: int) -> ComputeResult:
    return ComputeResult(json.dumps({"error": text}).encode(), status)


def _status(error: PenstockError) -> int:
    """Maps an error to an HTTP status. Modelbit's clients retry after 429 and 5xx: only transient errors have these."""
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
