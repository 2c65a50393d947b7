"""Server for client.py: all kinds of models in one process. Prints its addresses, and stops when its input ends."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
from contract import contract
from observe import free_ports, plain, write_line
from pytriton.decorators import (
    batch,
    fill_optionals,
    first_value,
    group_by_keys,
    group_by_values,
    sample,
    triton_context,
)
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

logging.disable(logging.CRITICAL)

F = np.float32
DTYPES = {
    **{np.dtype(name).name: np.dtype(name).type for name in ("bool", "float16", "float32", "float64")},
    **{f"{sign}int{bits}": getattr(np, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bytes": bytes,
    "object": object,
    "bytes_": np.bytes_,
    "object_": np.object_,
}


def tensor(name: str | None, dtype: Any = F, shape: tuple[int, ...] = (-1,), *, optional: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape, optional=optional)


def echo(requests: Any) -> Any:
    """Returns empty outputs for missing inputs."""
    return [{**nothing(len(next(iter(request.values())))), **dict(request.items())} for request in requests]


def nothing(rows: int) -> dict[str, Any]:
    numbers = {name: np.zeros((rows, 1), dtype) for name, dtype in DTYPES.items() if np.dtype(dtype).kind in "biuf"}
    return {name: numbers.get(name, np.array([[b"nothing"]] * rows, object)) for name in DTYPES}


def doubled(requests: Any) -> Any:
    return [{"y": request["x"] * 2} for request in requests]


async def awaited(requests: Any) -> Any:
    await asyncio.sleep(0)
    return doubled(requests)


def generated(requests: Any) -> Iterator[Any]:
    yield doubled(requests)


async def async_generated(requests: Any) -> AsyncIterator[Any]:
    yield doubled(requests)


class Callable:
    def __call__(self, requests: Any) -> Any:
        return doubled(requests)

    @batch
    def method(self, x: Any) -> Any:
        return [x * 2]


@batch
def add_sub(a: Any, b: Any) -> Any:
    return {"add": a + b, "sub": a - b}


@sample
def sampled(x: Any) -> Any:
    return [x * 2]


@fill_optionals(b=np.array([3], F))
@batch
@first_value("c")
def optional(a: Any, b: Any, c: Any = None) -> Any:
    return {"y": a + b + (0 if c is None else c), "kind": np.array([[type(c).__name__.encode()]] * len(a))}


@group_by_keys
@batch
@group_by_values("group")
def grouped(x: Any, group: Any) -> Any:
    return {"y": x + len(x) * 10}


def parameters(requests: Any) -> Any:
    received = [
        json.dumps({k: [type(v).__name__, v] for k, v in sorted((one.parameters or {}).items())}) for one in requests
    ]
    names = [json.dumps(sorted(one.requested_output_names or [])) for one in requests]
    return [
        {"parameters": np.array([[one.encode()]], object), "requested_outputs": np.array([[name.encode()]], object)}
        for one, name in zip(received, names, strict=True)
    ]


@batch
@triton_context
def context(x: Any, triton_context: Any) -> Any:
    config = triton_context.model_configs[context]
    return [np.array([[json.dumps(plain(config)).encode()]] * len(x), object)]


def instance(number: int) -> Any:
    return lambda requests: [{"y": np.full((1, 1), number, F)} for _ in requests]


def streamed(requests: Any) -> Iterator[Any]:
    for step in range(int(requests[0]["count"][0, 0])):
        if requests[0]["count"][0, 0] == 9 and step == 2:
            raise ValueError("enough")
        yield [{"y": np.full((1, 2), step, F)} for _ in requests]


async def async_streamed(requests: Any) -> AsyncIterator[Any]:
    for response in streamed(requests):
        await asyncio.sleep(0)
        yield response


@batch
def batch_streamed(count: Any) -> Iterator[Any]:
    for step in range(3):
        yield {"y": count.astype(F) + step}


def no_stream(requests: Any) -> Any:
    return [{"y": request["count"].astype(F)} for request in requests]


def bind_all(triton: Triton) -> None:
    x, y = [tensor("x")], [tensor("y")]
    every = [tensor(name, dtype, optional=True) for name, dtype in DTYPES.items()]
    triton.bind(
        "dtypes", echo, every, [tensor(one.name, one.dtype) for one in every], config=ModelConfig(max_batch_size=8)
    )
    triton.bind(
        "add_sub",
        add_sub,
        [tensor("a", shape=(1,)), tensor("b", shape=(1,))],
        [tensor("add", shape=(1,)), tensor("sub", shape=(1,))],
        config=ModelConfig(max_batch_size=8),
        strict=True,
    )
    inputs, outputs = [tensor("mode", bytes, (1,)), tensor("x")], [tensor("y"), tensor("t", bytes)]
    triton.bind("contract", contract, inputs, outputs, config=ModelConfig(max_batch_size=16))
    triton.bind("contract_strict", contract, inputs, outputs, config=ModelConfig(max_batch_size=16), strict=True)
    kinds: dict[str, Any] = {
        "awaited": awaited,
        "generated": generated,
        "async_generated": async_generated,
        "object": Callable(),
        "method": Callable().method,
        "lambda": lambda requests: doubled(requests),
        "partial": functools.partial(doubled),
    }
    for name, kind in kinds.items():
        triton.bind(f"kind_{name}", kind, x, y)
    triton.bind(
        "sampled", sampled, [tensor("x", shape=(2,))], [tensor("y", shape=(2,))], config=ModelConfig(batching=False)
    )
    triton.bind(
        "optional",
        optional,
        [tensor("a", shape=(1,)), tensor("b", shape=(1,), optional=True), tensor("c", shape=(1,), optional=True)],
        [tensor("y", shape=(1,)), tensor("kind", bytes, (1,))],
        config=ModelConfig(max_batch_size=8),
    )
    triton.bind(
        "grouped",
        grouped,
        [tensor("x", shape=(1,)), tensor("group", bytes, (1,))],
        [tensor("y", shape=(1,))],
        config=ModelConfig(max_batch_size=8, batcher=DynamicBatcher(preferred_batch_size=[2, 4])),
    )
    triton.bind(
        "parameters", parameters, x, [tensor("parameters", bytes, (1,)), tensor("requested_outputs", bytes, (1,))]
    )
    triton.bind(
        "context",
        context,
        x,
        [tensor("config", bytes, (1,))],
        config=ModelConfig(batcher=DynamicBatcher(max_queue_delay_microseconds=7)),
        model_version=3,
    )
    triton.bind("instances", [instance(1), instance(2)], x, [tensor("y", shape=(1,))])
    triton.bind(
        "unnamed",
        lambda requests: [{"OUTPUT_1": r["INPUT_1"], "named": r["INPUT_3"]} for r in requests],
        [tensor(None), tensor("second"), tensor(None)],
        [tensor(None), tensor("named")],
    )
    count, stream = [tensor("count", np.int32, (1,))], ModelConfig(decoupled=True)
    for name, callable_ in {
        "def": no_stream,
        "generator": streamed,
        "async": async_streamed,
        "batch": batch_streamed,
    }.items():
        triton.bind(f"stream_{name}", callable_, count, y, config=stream)


def main() -> None:
    http, grpc, metrics = free_ports(3)
    config = TritonConfig(
        http_address="127.0.0.1",
        grpc_address="127.0.0.1",
        http_port=http,
        grpc_port=grpc,
        metrics_port=metrics,
        http_header_forward_pattern="header_.*",
        grpc_header_forward_pattern="header_.*",
        log_verbose=0,
    )
    triton = Triton(config=config)
    bind_all(triton)
    with triton:
        addresses = {
            "http": f"http://127.0.0.1:{http}",
            "grpc": f"grpc://127.0.0.1:{grpc}",
            "metrics": f"http://127.0.0.1:{metrics}",
        }
        write_line({**addresses, "token": triton.get_access_token()})
        sys.stdin.read()


if __name__ == "__main__":
    main()
