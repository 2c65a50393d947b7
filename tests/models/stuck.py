"""Models that get stuck, each in its own way, for as many seconds as their input; 0 is not at all."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Iterator

import numpy as np

from penstock import Processes, Tensor, model

X, Y = Tensor("x", np.float32, [1]), Tensor("y", np.float32, [1])


@model(inputs=[X], outputs=[Y])
def held(x):
    if x[0]:
        ctypes.PyDLL(None).sleep(int(x[0]))  # held: the GIL too
    return x


@model(inputs=[X], outputs=[Y], instances=2)
def locked(x):
    if x[0]:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire(timeout=float(x[0]))  # locked: for ever
    return x


@model(inputs=[X], outputs=[Y])
def spinning(x):
    end = time.monotonic() + float(x[0])
    while time.monotonic() < end:  # spinning
        pass
    return x


@model(inputs=[X], outputs=[Y], max_concurrency=4)
async def blocked(x):
    if x[0]:
        time.sleep(float(x[0]))  # blocked: the loop too
    return x


@model(inputs=[X], outputs=[Y], max_concurrency=4)
async def patient(x):
    await asyncio.sleep(float(x[0]))
    return x


@model(inputs=[X], outputs=[Y])
def pieces(x) -> Iterator[np.ndarray]:
    end = time.monotonic() + float(x[0])
    while time.monotonic() < end:
        time.sleep(0.25)
        yield x
    yield x


@model(inputs=[X], outputs=[Y], stall_timeout=0)
def allowed(x):
    time.sleep(float(x[0]))
    return x


@model(inputs=[X], outputs=[Y], instances=Processes(1))
def child(x):
    end = time.monotonic() + float(x[0])
    while time.monotonic() < end:
        # A signal ends a sleep of C early.
        ctypes.PyDLL(None).sleep(int(x[0]))  # child
    return x
