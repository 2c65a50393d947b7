"""What deployments' models load that are called by the door: in processes of their own, or to join requests."""

from __future__ import annotations

import gc
import hmac
from typing import Any

import numpy as np

from penstock import Context, Forbidden, LoadError
from penstock.compat.modelbit._deployment import Deployment
from penstock.compat.modelbit._framing import FrameRunner
from penstock.compat.modelbit._running import Answer, Runner
from penstock.compat.modelbit._source import function_of

__all__ = ["JoiningWorker", "Worker", "joined"]


class Worker:
    """Answers bodies of requests, one at a time, in a process of its own."""

    def __init__(self) -> None:
        deployment = Deployment.of_this_process()
        if deployment is None:
            raise LoadError("this process is no deployment's")
        kind = Runner if deployment.columns is None else FrameRunner
        self._runner = kind(deployment, function_of(deployment))
        # What is loaded stays: else each large body, which is many objects, has the collector look through all of it.
        gc.collect()
        gc.freeze()

    def __call__(self, body: Any, ctx: Context) -> Any:
        (answer,) = self._runner.answer([bytes(body[0])], [_told(self._runner, ctx.parameters)])
        return _arrays([answer], 1)


class JoiningWorker(Worker):
    """Answers bodies of several requests by one call."""

    def __call__(self, body: Any, ctx: Context) -> Any:
        return joined(self._runner, body, ctx)


def joined(runner: Runner, body: Any, ctx: Context) -> Any:
    """The answers to bodies of several requests, by one call."""
    told = [_told(runner, one.parameters) for one in ctx.requests]
    return _arrays(runner.answer([bytes(one[0]) for one in body], told), 2)


def _told(runner: Runner, parameters: dict[str, Any]) -> dict[str, Any]:
    # Its model can be asked over V2 as any can; keys and the like are looked at by the door alone.
    if not hmac.compare_digest(str(parameters.get("token", "")), runner.deployment.token):
        raise Forbidden("a deployment is asked by its own path, /v1/DEPLOYMENT/VERSION")
    return parameters


def _arrays(answers: list[Answer], axes: int) -> tuple[Any, Any, Any]:
    """The answers as the outputs of a model."""

    def texts(values: list[bytes]) -> Any:
        made = np.empty(len(values), object)
        made[:] = values
        return made if axes == 1 else made.reshape(-1, 1)

    status = np.array([one.status for one in answers], np.int64)
    return (
        texts([one.body for one in answers]),
        status if axes == 1 else status.reshape(-1, 1),
        texts([one.record for one in answers]),
    )
