"""What deployments' models load that are called by the integration: in processes of their own, or to join requests."""

from __future__ import annotations

import gc
import hmac
from typing import Any

import numpy as np

from penstock import Context, Forbidden, LoadError, Request, Response
from penstock.compat.modelbit._function.frame_runner import FrameRunner
from penstock.compat.modelbit._function.runner import Answer, Runner, refused
from penstock.compat.modelbit._function.source import function_of
from penstock.compat.modelbit._gateway.api_keys import Keys
from penstock.compat.modelbit._gateway.parse_request import is_single
from penstock.compat.modelbit._response import given, usual
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit.errors import BadCall

__all__ = ["OUTPUTS", "DirectWorker", "JoiningWorker", "Worker", "joined"]

OUTPUTS = ("answer", "status", "record")
"""What a deployment's model gives the integration."""


class Worker:
    """Answers bodies of requests, one at a time, in a process of its own."""

    def __init__(self) -> None:
        deployment = Deployment.of_this_process()
        if deployment is None:
            raise LoadError("this process is no deployment's")
        self._deployment = deployment
        kind = Runner if deployment.columns is None else FrameRunner
        self._runner = kind(deployment, function_of(deployment))
        # What is loaded stays: else each large body, which is many objects, has the collector look through all of it.
        gc.collect()
        gc.freeze()

    def __call__(self, body: Any, ctx: Context) -> Any:
        return _arrays([self._answer(body, ctx.parameters)], 1)

    def _answer(self, body: Any, parameters: dict[str, Any]) -> Answer:
        """The answer to what the integration asks."""
        (answer,) = self._runner.answer([bytes(body[0])], [_told(self._runner, parameters)])
        return answer


class DirectWorker(Worker):
    """Answers requests to the deployment's own paths as well, where nobody else has to see to them."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = Keys(self._deployment.keys, self._deployment.require_key)

    def __call__(self, request: Request) -> Response:  # type: ignore[override]
        if request.route is None:
            answer = self._answer(request.tensors["body"], request.parameters)
            found = zip(OUTPUTS, _arrays([answer], 1), strict=True)
            return Response(outputs=dict(found))
        try:
            self._keys.check(request.headers)
        except BadCall as error:
            return given(refused(error))
        body, single = request.body or b"", is_single(request.headers)
        if not single and self._deployment.parts(body):
            return Response(status=421)
        return given(self._runner.answer([body], [usual(single)])[0])


class JoiningWorker(Worker):
    """Answers bodies of several requests by one call."""

    def __call__(self, body: Any, ctx: Context) -> Any:
        return joined(self._runner, body, ctx)


def joined(runner: Runner, body: Any, ctx: Context) -> Any:
    """The answers to bodies of several requests, by one call."""
    told = [_told(runner, one.parameters) for one in ctx.requests]
    return _arrays(runner.answer([bytes(one[0]) for one in body], told), 2)


def _told(runner: Runner, parameters: dict[str, Any]) -> dict[str, Any]:
    # Its model can be asked over V2 as any can; keys and the like are looked at by the integration alone.
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
