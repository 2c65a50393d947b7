"""Handlers that the gateway calls: in worker processes, and for batches of requests."""

from __future__ import annotations

import gc
import hmac
from typing import Any

import numpy as np

from penstock import Context, Forbidden, LoadError, Request, Response
from penstock.compat.modelbit._api_keys import ApiKeys
from penstock.compat.modelbit._function.frame_runner import FrameRunner
from penstock.compat.modelbit._function.runner import Runner, call_options
from penstock.compat.modelbit._function.source import load_in_worker
from penstock.compat.modelbit._request import is_single
from penstock.compat.modelbit._response import FunctionResponse, error_response, to_response
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit.errors import RequestError

__all__ = ["OUTPUTS", "BatchingWorker", "DirectWorker", "Worker", "compute_batch"]

OUTPUTS = ("answer", "status", "record")
"""Output names of a deployment's model."""


class Worker:
    """Responds to request bodies one at a time, in a worker process."""

    def __init__(self) -> None:
        deployment = Deployment.of_process()
        if deployment is None:
            raise LoadError("this process is not a deployment's worker")
        self._deployment = deployment
        kind = Runner if deployment.columns is None else FrameRunner
        self._runner = kind(deployment, load_in_worker(deployment))
        # Loaded objects live as long as the process. Frozen, they are not traversed by the collections that a large
        # body, which is many objects, triggers.
        gc.collect()
        gc.freeze()

    def __call__(self, body: Any, ctx: Context) -> Any:
        return _to_outputs([self._respond(body, ctx.parameters)], 1)

    def _respond(self, body: Any, parameters: dict[str, Any]) -> FunctionResponse:
        """Returns the response to a request of the gateway."""
        (response,) = self._runner.respond([bytes(body[0])], [_authorized(self._runner, parameters)])
        return response


class DirectWorker(Worker):
    """Also responds to the deployment's exact routes, without the gateway."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = ApiKeys(self._deployment.key_digests, self._deployment.require_key)

    def __call__(self, request: Request) -> Response:  # type: ignore[override]
        if request.route is None:
            response = self._respond(request.tensors["body"], request.parameters)
            outputs = zip(OUTPUTS, _to_outputs([response], 1), strict=True)
            return Response(outputs=dict(outputs))
        try:
            self._keys.check(request.headers)
        except RequestError as error:
            return to_response(error_response(error))
        body, single = request.body or b"", is_single(request.headers)
        if not single and self._deployment.part_count(body):
            # Declined, so that the fallback splits the batch between all workers.
            return Response(status=421)
        return to_response(self._runner.respond([body], [call_options(single)])[0])


class BatchingWorker(Worker):
    """Responds to the bodies of several requests by one call of the function."""

    def __call__(self, body: Any, ctx: Context) -> Any:
        return compute_batch(self._runner, body, ctx)


def compute_batch(runner: Runner, body: Any, ctx: Context) -> Any:
    """Returns the responses to the bodies of several requests, as the model's outputs."""
    options = [_authorized(runner, one.parameters) for one in ctx.requests]
    return _to_outputs(runner.respond([bytes(one[0]) for one in body], options), 2)


def _authorized(runner: Runner, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a request that has the gateway's token.

    V2 requests reach this model too, and the gateway alone checks API keys.
    """
    if not hmac.compare_digest(str(parameters.get("token", "")), runner.deployment.token):
        raise Forbidden("send requests for a deployment to its own path, /v1/DEPLOYMENT/VERSION")
    return parameters


def _to_outputs(responses: list[FunctionResponse], axes: int) -> tuple[Any, Any, Any]:
    """Returns responses as output arrays, of shape [n] or, with two axes, [n, 1]."""

    def to_array(values: list[bytes]) -> Any:
        array = np.empty(len(values), object)
        array[:] = values
        return array if axes == 1 else array.reshape(-1, 1)

    status = np.array([one.status for one in responses], np.int64)
    return (
        to_array([one.body for one in responses]),
        status if axes == 1 else status.reshape(-1, 1),
        to_array([one.record for one in responses]),
    )
