"""Page faults of a handler that creates large arrays."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from penstock import Client, Server, Tensor, model

BYTES, ARRAYS, CALLS = 5 << 20, 6, 10

@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def create(x):
    arrays = [np.ones(BYTES, np.uint8) for _ in range(ARRAYS)]
    return x + len(arrays)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with Server(create, http="127.0.0.1:0", grpc=None) as server, Client(server.http_url) as client:
    call = lambda: client.infer("create", {"x": np.ones(1, np.float32)})
    for _ in range(5):
        call()
    before = faults()
    for _ in range(CALLS):
        call()
    print((faults() - before) // CALLS)
"""

LIMIT = 100
"""Faults of a call; more than 1,000 if freed memory is returned to the kernel."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_new_arrays_take_the_memory_of_freed_ones() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) < LIMIT
