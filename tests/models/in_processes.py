"""Models whose instances are processes. At the top level, so that the processes can import them."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from opentelemetry import trace

from penstock import (
    Batching,
    BatchTooLarge,
    Context,
    InvalidInput,
    Overloaded,
    Processes,
    RowErrors,
    Sequences,
    Tensor,
    model,
)

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
ROWS: dict[str, Any] = {**FLOATS, "batching": Batching(max_size=8)}

retained: list[Any] = []
"""Arrays that a handler retains."""


def misbehave(kind: int) -> None:
    """Ends or damages this process in the way selected by the number."""
    if kind == 1:
        os._exit(3)
    elif kind == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == 3:
        ctypes.string_at(0)
    elif kind == 4:
        time.sleep(60)
    elif kind == 5:
        os.close(worker_socket())
        time.sleep(60)
    elif kind == 6:
        os.write(worker_socket(), b"not a frame")
        time.sleep(60)
    elif kind == 7:
        os.abort()
    elif kind == 8:
        raise RuntimeError("a secret of the handler")
    elif kind == 9:
        sys.exit("not like this")
    elif kind == 10 and os.fork() == 0:
        # A forked child that outlives this process holds its socket open.
        time.sleep(3)
        os._exit(0)


def worker_socket() -> int:
    """The descriptor of the socket to the server."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:") and int(name) > 2:
                return int(name)
        except OSError:
            continue
    raise AssertionError("no socket found")


@model(name="fragile", instances=Processes(1, hang_after=2.0), **FLOATS)
def fragile(x: Any) -> Any:
    misbehave(int(x[0]))
    if int(x[0]) == 10:
        os._exit(4)
    return np.array([os.getpid()], np.float32)


@model(name="fragile_rows", instances=Processes(2), **ROWS)
def fragile_rows(x: Any) -> Any:
    misbehave(int(x.max()))
    time.sleep(0.05)
    return x * 2


@model(name="same", instances=Processes(1), **ROWS)
def same(x: Any) -> Any:
    return x


@model(name="double", instances=Processes(2), **ROWS)
def double(x: Any) -> Any:
    return x * 2


@model(name="retaining", instances=Processes(1), **FLOATS)
def retaining(x: Any) -> Any:
    """Retains every array, writes to it, and returns the values of all."""
    assert x.flags.writeable
    assert x.ctypes.data % 64 == 0
    x[0] += 100
    retained.append(x)
    return np.array([one[0] for one in retained], np.float32)


@model(name="echo_context", instances=Processes(1), **FLOATS)
def echo_context(x: Any, ctx: Context) -> Any:
    only = ctx.requests[0]
    ctx.counter("seen", 2.5)
    ctx.set_parameter("id", ctx.request_id)
    ctx.set_parameter("stop", str(ctx.parameters.get("stop")))
    ctx.set_parameter("header", ctx.headers.get("x-colour", ""))
    ctx.set_parameter("left", -1.0 if ctx.deadline is None else ctx.deadline)
    ctx.set_parameter("priority", only.priority)
    ctx.set_parameter("where", f"{ctx.model_name} {ctx.model_version} {only.rows}")
    return x


@model(name="records_metrics", instances=Processes(1), buckets={"detections": [1, 5, 10.0]}, **FLOATS)
def records_metrics(x: Any, ctx: Context) -> Any:
    """Records metrics of every kind."""
    ctx.metrics.counter("tokens", 12, kind="prompt")
    ctx.metrics.counter("tokens_total", kind="prompt")
    ctx.metrics.gauge("cache_entries", -2.5, shard=3, warm=True)
    ctx.metrics.observe("seen_seconds", 0.02)
    ctx.metrics.observe("detections", 7, label='a "quoted" \\ one\n')
    return x


@model(name="too_many_series", instances=Processes(1), **FLOATS)
def too_many_series(x: Any, ctx: Context) -> Any:
    """Records more series than allowed."""
    for index in range(1100):
        ctx.metrics.counter("hoarded", user=index)
    return x


@model(name="talks", instances=Processes(1), **FLOATS)
def talks(x: Any) -> Any:
    """Logs and prints."""
    logging.getLogger("of.library").warning("computing %d", int(x[0]))
    print("printed", int(x[0]))
    print('{"as": "json"}')
    os.write(2, b"without its end")
    return x


@model(name="traces", instances=Processes(1), **FLOATS)
def traces(x: Any, ctx: Context) -> Any:
    """Reports its own span, and OpenTelemetry's current context."""
    span = trace.get_current_span().get_span_context()
    ctx.set_parameter("own", f"{span.trace_id:032x} {span.span_id:016x}")
    ctx.set_parameter("context", f"{ctx.traceparent} {ctx.tracestate}")
    return x


@model(name="patient", instances=Processes(1), **FLOATS)
def patient(x: Any, ctx: Context) -> Any:
    """Reports its start, waits for its client to disconnect, and counts that."""
    Path(ctx.request_id).touch()
    until = time.monotonic() + 20
    while not ctx.cancelled and time.monotonic() < until:
        time.sleep(0.002)
    ctx.counter("left" if ctx.cancelled else "stayed")
    return x


@model(name="chunks", instances=Processes(1), **FLOATS)
def chunks(x: Any, ctx: Context) -> Iterator[Any]:
    try:
        for index in range(int(x[0])):
            if x.size > 1 and index == int(x[1]):
                misbehave(int(x[2]))
            ctx.set_parameter("index", index)
            yield np.full(int(x[3]) if x.size > 3 else 1, index, np.float32)
    finally:
        ctx.counter("closed")


@model(name="sums", instances=Processes(2), sequences=Sequences(idle_timeout=30), **FLOATS)
class Sums:
    """Adds up the values of a sequence."""

    def __call__(self, x: Any, ctx: Context) -> Any:
        if x[0] < 0:
            misbehave(int(-x[0]))
        assert ctx.sequence is not None
        state = ctx.sequence.state
        state["sum"] = state.get("sum", 0) + x[0]
        return np.array([state["sum"], os.getpid() % 100_000], np.float32)


@model(name="refuses", instances=Processes(1), **FLOATS)
def refuses(x: Any) -> Any:
    if x[0] == 1:
        raise InvalidInput("x must not be 1")
    if x[0] == 2:
        raise Overloaded("too much")
    return {"z": x} if x[0] == 3 else x


@model(name="settings", instances=Processes(2, threads=1, gpus=[3, "4,5"], env={"COLOUR": "red"}), **FLOATS)
class Settings:
    """Reports its environment."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.05)
        devices = {"3": 3, "4,5": 45}[os.environ["CUDA_VISIBLE_DEVICES"]]
        env_is_set = os.environ["OMP_NUM_THREADS"] == "1" and os.environ["COLOUR"] == "red"
        return np.array([devices, env_is_set], np.float32)


DTYPES = {
    "BOOL": "bool",
    **{f"UINT{bits}": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    "FP16": "f2",
    "BF16": "f4",
    "FP32": "f4",
    "FP64": "f8",
    "BYTES": "O",
}


@model(
    name="every",
    instances=Processes(1),
    inputs=[Tensor(name, name, [-1], optional=True) for name in DTYPES],
    outputs=[Tensor(name, name, [-1]) for name in DTYPES],
)
def every(*inputs: Any) -> Any:
    arrays = zip(inputs, DTYPES.values(), strict=True)
    return tuple(np.empty(0, dtype) if one is None else one for one, dtype in arrays)


COLUMN: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


@model(name="raises_rows", instances=Processes(1), batching=Batching(3, max_delay=60), **COLUMN)
def raises_rows(x: Any) -> Any:
    raise RowErrors({row: InvalidInput(f"no {x[row, 0]:.0f}") for row in np.flatnonzero(x[:, 0] < 0)}, x * 10)


@model(name="lists_rows", instances=Processes(1), batching=Batching(3, max_delay=60), **COLUMN)
def lists_rows(x: Any) -> Any:
    return [InvalidInput(f"no {row[0]:.0f}") if row[0] < 0 else row * 10 for row in x]


@model(name="padded", instances=Processes(1), batching=Batching(sizes=[4, 8], pad="zeros"), **COLUMN)
def padded(x: Any) -> Any:
    """Row count and sum of the batch."""
    return np.full_like(x, 100 * len(x) + x.sum())


@model(name="short", instances=Processes(1), batching=Batching(8, max_delay=60, retry_on_oom=True), **COLUMN)
def short_of_memory(x: Any) -> Any:
    """Holds two rows."""
    if len(x) > 2:
        raise BatchTooLarge(f"{len(x)} rows")
    return x * 10 + len(x)
