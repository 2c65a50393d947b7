"""Native models with the functions of the integrations' apps, as their baseline."""

from __future__ import annotations

import json

import numpy as np

from penstock import Model, Processes, Request, Response, Tensor, Threads, model


def double(x):
    """Returns twice the number: the plain V2 path."""
    return x * 2


def answered(request: Request) -> Response:
    """Doubles the tensors of a raw request."""
    return Response(outputs={"y": request.tensors["x"] * 2})


def routed(request: Request) -> Response:
    """Doubles the number in a body, at a declared route."""
    told = json.loads(request.body or b"")
    return Response(json.dumps({"data": double(told["data"])}), content_type="application/json")


def _declared(name: str, instances: Threads | Processes) -> Model:
    inputs, outputs = [Tensor("x", np.float64, [1])], [Tensor("y", np.float64, [1])]
    return model(name=name, inputs=inputs, outputs=outputs, instances=instances)(double)


# At the top level, so that its processes can import them.
plain_server = _declared("plain_server", Threads(1))
plain_process = _declared("plain_process", Processes(1))
open_server = model(name="open_server", instances=Threads(1))(answered)
open_process = model(name="open_process", instances=Processes(1))(answered)
routed_server = model(name="routed_server", instances=Threads(1), routes=["POST /routed/server"])(routed)
routed_process = model(name="routed_process", instances=Processes(1), routes=["POST /routed/process"])(routed)
