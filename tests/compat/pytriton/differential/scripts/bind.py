"""Rejected bindings, and the lifecycle of a server. Each rejection at load has a new server."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from observe import free_ports, show
from pytriton.client import ModelClient
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor
from pytriton.triton import RemoteTriton, Triton, TritonConfig, TritonSecurityConfig

logging.disable(logging.CRITICAL)
F = np.float32
X, Y = Tensor(name="x", dtype=F, shape=(1,)), Tensor(name="y", dtype=F, shape=(1,))


def config() -> TritonConfig:
    http, grpc, metrics = free_ports(3)
    return TritonConfig(
        http_address="127.0.0.1", grpc_address="127.0.0.1", http_port=http, grpc_port=grpc, metrics_port=metrics
    )


@batch
def double(x: Any) -> Any:
    return [x * 2]


def bind(*arguments: Any, times: int = 1, **named: Any) -> str:
    """Binds a model without starting the server."""
    triton = Triton(config=config())
    try:
        for _ in range(times):
            triton.bind(*arguments, **named)
    finally:
        triton.stop()
    return "bound"


def load(**fields: Any) -> str:
    """Binds a model and starts the server."""
    inputs, outputs = fields.pop("inputs", [X]), fields.pop("outputs", [Y])
    with Triton(config=config()) as triton:
        triton.bind("m", double, inputs, outputs, **fields)
    return "loaded"


show("bind", lambda: bind("m", double, [X], [Y]))
show("bind an empty name", lambda: bind("", double, [X], [Y]))
for name in ("a b", "a/b", "a:b", "gr\u00fcn", "a.b-c_1"):
    show(f"bind {name!r}", lambda: bind(name, double, [X], [Y]))
show("bind twice", lambda: bind("m", double, [X], [Y], times=2))


def other_case() -> str:
    triton = Triton(config=config())
    triton.bind("Model", double, [X], [Y])
    triton.bind("model", double, [X], [Y])
    return "bound"


def other_version() -> str:
    triton = Triton(config=config())
    triton.bind("model", double, [X], [Y])
    triton.bind("model", double, [X], [Y], model_version=2)
    return "bound"


show("bind the name in another case", other_case)
show("bind another version", other_version)
show("bind nothing to call", lambda: bind("m", 5, [X], [Y]))
show("bind a list", lambda: bind("m", [double, double], [X], [Y]))
show("bind a list with nothing to call", lambda: bind("m", [double, 5], [X], [Y]))
show("bind an optional output", lambda: bind("m", double, [X], [Tensor(name="y", dtype=F, shape=(1,), optional=True)]))
show("bind no inputs", lambda: bind("m", double, [], [Y]))
show("Triton positional", lambda: Triton(config()))
show("load", load)
show("load a batch of none", lambda: load(config=ModelConfig(max_batch_size=0)))
show(
    "load too high a level",
    lambda: load(config=ModelConfig(batcher=DynamicBatcher(default_priority_level=2, priority_levels=1))),
)
show(
    "load policies without levels",
    lambda: load(config=ModelConfig(batcher=DynamicBatcher(priority_queue_policy={1: QueuePolicy()}))),
)
show("load a dtype by name", lambda: load(inputs=[Tensor(name="x", dtype="float32", shape=(1,))]))
show("load a numpy dtype", lambda: load(inputs=[Tensor(name="x", dtype=np.dtype("float32"), shape=(1,))]))


def lifecycle() -> Any:
    settings = config()
    triton = Triton(config=settings, security_config=TritonSecurityConfig(access_token="token"))
    states: list[Any] = [triton.is_alive(), triton.is_connected(), triton.get_access_token()]
    triton.bind("early", double, [X], [Y])
    triton.run()
    triton.run()
    states += [triton.is_alive(), triton.is_connected()]
    triton.bind("late", double, [X], [Y], config=ModelConfig(batcher=None))
    url = f"http://127.0.0.1:{settings.http_port}"
    with ModelClient(url, "late", init_timeout_s=20) as client:
        states.append(client.infer_sample(np.ones(1, F)))
    with RemoteTriton(url=url, access_token="token") as remote:
        remote.bind("remote", double, [X], [Y])
        with ModelClient(url, "remote", init_timeout_s=20) as client:
            states += [remote.is_alive(), client.infer_sample(np.ones(1, F))]
    states += [triton.is_alive(), triton.stop(), triton.is_alive(), triton.is_connected(), triton.stop()]
    return states


show("a life", lifecycle)
show("a remote of no server", lambda: RemoteTriton(url="ftp://localhost"))


def failed_load_keeps_other_models() -> Any:
    with Triton(config=config()) as triton:
        try:
            triton.bind("bad", double, [X], [Y], config=ModelConfig(max_batch_size=0))
        except Exception as error:
            raised = type(error).__name__
        triton.bind("good", double, [X], [Y])
        return [raised, triton.is_alive()]


show("a bad model", failed_load_keeps_other_models)
