"""Live `Triton` servers on free ports of this machine, and requests without PyTriton's clients."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import HttpResponse, infer
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.compat.pytriton.triton import Triton, TritonBase, TritonConfig
from waiting import PATIENCE, until

LOOPBACK: dict[str, Any] = {
    "http_address": "127.0.0.1",
    "http_port": 0,
    "grpc_address": "127.0.0.1",
    "grpc_port": 0,
    "metrics_address": "127.0.0.1",
    "metrics_port": 0,
}
X = Tensor(name="x", dtype=np.float32, shape=(-1,))
Y = Tensor(name="y", dtype=np.float32, shape=(-1,))
ROW = np.array([[1, 2]], np.float32)


@batch
def double(x: Any) -> Any:
    return {"y": x * 2}


def triton(*, security_config: Any = None, workspace: Any = None, policy: Any = None, **config: Any) -> Triton:
    """Returns a server that is not started; `config` holds fields of its `TritonConfig`."""
    settings = TritonConfig(**{**LOOPBACK, **config})
    return Triton(config=settings, security_config=security_config, workspace=workspace, triton_lifecycle_policy=policy)


def bind(server: TritonBase, name: str = "m", infer_func: Any = double, version: int = 1, **config: Any) -> None:
    """Binds a model from x to y; `config` holds fields of its `ModelConfig`."""
    server.bind(name, infer_func, [X], [Y], model_version=version, config=ModelConfig(**config))


def url(server: Triton, endpoint: str = "http") -> str:
    assert server._triton_server is not None
    return server._triton_server.get_endpoint(endpoint)


def infer_row(server: Triton, name: str = "m") -> HttpResponse:
    """Returns the response to an inference over HTTP."""
    return infer(url(server), name, {"x": ROW})


def is_serving(server: Triton, name: str = "m") -> bool:
    """Checks that the model doubles, over HTTP and gRPC."""
    over_http = infer_row(server, name).array("y").tolist()
    with grpc.insecure_channel(url(server, "grpc").removeprefix("grpc://")) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name=name, raw_input_contents=[ROW.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=ROW.shape)
        response = stub.ModelInfer(request, timeout=PATIENCE)
    return bool(over_http == [[2, 4]] and response.raw_output_contents[0] == (ROW * 2).tobytes())


def once_in_serve(call: Callable[[], object]) -> threading.Thread:
    """Calls a function on a new thread, after the main thread has entered `serve` and handles signals there."""

    def run() -> None:
        until(lambda: signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
        call()

    return in_thread(run)


def in_thread(call: Any) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread
