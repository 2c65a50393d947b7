"""A process that attaches models until SIGTERM: `python -m models.attached_models ADDRESS MODEL...`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Batching, Context, Final, Level, Processes, Queueing, Sequences, Tensor, attach, model

FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
ROWS: dict[str, Any] = {**FLOATS, "batching": Batching(max_size=8)}


@model(**ROWS)
def double(x: Any) -> Any:
    return x * 2


@model(instances=2, **ROWS)
def slow(x: Any) -> Any:
    """Adds the pid, after a delay."""
    time.sleep(0.02)
    return x + os.getpid()


@model(**FLOATS)
def never(x: Any) -> Any:
    print("computing", flush=True)
    time.sleep(600)
    return x


@model(**FLOATS)
def forking(x: Any) -> Any:
    """Dies, and leaves a forked child that holds all descriptors open."""
    if os.fork() == 0:
        time.sleep(15)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    return x


@model(instances=2, **FLOATS)
def talking(x: Any) -> Any:
    """Sends an invalid frame on every socket except the oldest, the control channel."""
    if x[0] == 1:
        paths = list(Path("/proc/self/fd").iterdir())
        for number in sorted(int(path.name) for path in paths if path.is_socket())[1:]:
            os.write(number, b"not a frame")
    return x


@model(**FLOATS)
def counts(x: Any) -> Iterator[Any]:
    for number in range(int(x[0])):
        yield np.array([number], np.float32)
    yield Final(np.array([-1], np.float32))


@model(**ROWS)
async def asynchronous(x: Any) -> Any:
    return x + 1


@model(sequences=Sequences(), **ROWS)
def summing(x: Any, ctx: Context) -> Any:
    out = np.empty_like(x)
    for row, request in enumerate(ctx.requests):
        state = request.sequence.state
        state["sum"] = state.get("sum", 0) + x[row, 0]
        out[row] = state["sum"]
    return out


@model(
    inputs=[
        Tensor("text", str, [1]),
        Tensor("extra", "BF16", [-1], optional=True),
        Tensor("raw", bytes, [1], pad=None),
    ],
    outputs=[Tensor("out", str, [1], labels=None), Tensor("score", np.float32, [2], labels=["no", "yes"])],
    queueing=Queueing(priorities=3, timeout=30.0, levels={1: Level(max_size=4)}, fair_by="header:X-Client"),
    version="3",
    description="Echoes its inputs.",
    buckets={"length": [1, 2, 5]},
)
def texts(text: Any, extra: Any, raw: Any, ctx: Context) -> Any:
    ctx.metrics.observe("length", len(text[0]))
    ctx.set_parameter("pid", os.getpid())
    return np.array([text[0] + raw[0].decode()], object), np.array([0.25, 0.75], np.float32)


@model(instances=Processes(1), **FLOATS)
def in_a_process(x: Any) -> Any:
    return x


class Failing:
    def __init__(self) -> None:
        raise RuntimeError("the weights are not there")

    def __call__(self, x: Any) -> Any:
        return x


failing = model(name="failing", **FLOATS)(Failing)


def main() -> None:
    address, *names = sys.argv[1:]
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    with attach(address, *(globals()[name] for name in names)) as attached:
        print("attached", os.getpid(), flush=True)
        while not ends and not attached.wait(0.05):
            pass
    print("ended:", attached.reason, flush=True)


if __name__ == "__main__":
    main()
