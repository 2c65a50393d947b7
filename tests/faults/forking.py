"""Models whose handlers fork, and return in the child too. They return the exit status of the child."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from typing import Any

import numpy as np

from penstock import Processes, Tensor, model

INTS: dict[str, Any] = {"inputs": [Tensor("x", np.int32, [1])], "outputs": [Tensor("y", np.int32, [1])]}


def forked(x: Any) -> Any:
    child = os.fork()
    if child == 0:
        return x
    return np.full_like(x, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@model(**INTS)
def plain(x):
    return forked(x)


@model(**INTS)
def stream(x):
    yield forked(x)


@model(**INTS)
async def awaited(x):
    return forked(x)


@model(instances=Processes(1), **INTS)
def process(x):
    return forked(x)


def _listening_sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:
            continue
        try:
            with socket.socket(fileno=copy) as one:
                count += one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError:
            # Not a socket.
            os.close(copy)
    return count


def _exit_with_listening_sockets() -> None:
    os._exit(_listening_sockets())


def _sleep() -> None:
    time.sleep(60)


def ended(x: Any) -> Any:
    """Exit status of a multiprocessing child: for 0 its number of listening sockets, for 1 the effective signal."""
    started = multiprocessing.get_context("fork").Process(target=_sleep if x[0] else _exit_with_listening_sockets)
    started.start()
    if x[0]:
        os.kill(started.pid, signal.SIGINT)
        os.kill(started.pid, signal.SIGTERM)
    started.join()
    return np.full_like(x, started.exitcode)


@model(**INTS)
def child(x):
    return ended(x)


@model(instances=Processes(1), **INTS)
def process_child(x):
    return ended(x)
