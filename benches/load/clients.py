"""Clients side by side: `penstock.Client` and tritonclient, from one thread pool in one interpreter.

    python -m benches.load.clients --threads 16 --seconds 3 --repeats 3

All call the same penstock server, in turns: one row of 16 floats, and a tensor of 4.9 MB each way.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
Infer = Callable[[], Any]

SMALL = np.arange(16, dtype=np.float32).reshape(1, 16)
LARGE = np.ones((1, 3, 640, 640), np.float32)
CALLS = {"16 floats": ("small", SMALL), "4.9 MB each way": ("large", LARGE)}


def penstock(scheme: str, address: str, _: int) -> Callable[[str, Any], Infer]:
    """One client for all threads."""
    from penstock import Client

    client = Client(f"{scheme}://{address}")
    return lambda model, x: lambda: client.infer(model, x=x).y


def triton_http(_: str, address: str, __: int) -> Callable[[str, Any], Infer]:
    """One client per thread, as its documentation requires."""
    import tritonclient.http as triton

    local = threading.local()

    def make(model: str, x: Any) -> Infer:
        def call() -> Any:
            if not hasattr(local, "client"):
                local.client = triton.InferenceServerClient(address)
            wanted = triton.InferInput("x", list(x.shape), "FP32")
            wanted.set_data_from_numpy(x)
            return local.client.infer(model, [wanted]).as_numpy("y")

        return call

    return make


def triton_grpc(_: str, address: str, __: int) -> Callable[[str, Any], Infer]:
    """One client for all threads."""
    import tritonclient.grpc as triton

    client = triton.InferenceServerClient(address)

    def make(model: str, x: Any) -> Infer:
        def call() -> Any:
            wanted = triton.InferInput("x", list(x.shape), "FP32")
            wanted.set_data_from_numpy(x)
            return client.infer(model, [wanted]).as_numpy("y")

        return call

    return make


SIDES = {
    ("penstock", "http"): penstock,
    ("tritonclient", "http"): triton_http,
    ("penstock", "grpc"): penstock,
    ("tritonclient", "grpc"): triton_grpc,
}


def per_second(infer: Infer, threads: int, seconds: float) -> float:
    """Number of calls that end within the time, from several threads."""
    began = 0.0

    def begin() -> None:
        nonlocal began
        began = time.perf_counter()

    start = threading.Barrier(threads, begin)

    def work() -> int:
        infer()
        start.wait()
        count = 0
        while time.perf_counter() < began + seconds:
            infer()
            count += 1
        return count

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work) for _ in range(threads)]
        total = sum(future.result() for future in futures)
    return total / (time.perf_counter() - began)


@contextlib.contextmanager
def server() -> Iterator[dict[str, str]]:
    """The addresses of a server of the two models."""
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
    command = [sys.executable, str(HERE / "servers/penstock_echoes.py"), *map(str, ports)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ports[1]), 1):
                break
            time.sleep(0.1)
        yield {"http": f"127.0.0.1:{ports[0]}", "grpc": f"127.0.0.1:{ports[1]}"}
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.threads} threads; requests/s, medians of {options.repeats}\n")
    print("| tensor | wire | penstock.Client | tritonclient | ratio |\n|---|---|--:|--:|--:|")
    with server() as addresses:
        made = {side: make(side[1], addresses[side[1]], options.threads) for side, make in SIDES.items()}
        for tensor, (model, x) in CALLS.items():
            runs: dict[tuple[str, str], list[float]] = {side: [] for side in SIDES}
            for _ in range(options.repeats):
                for side, make in made.items():
                    np.testing.assert_array_equal(make(model, x)(), x)
                    runs[side].append(per_second(make(model, x), options.threads, options.seconds))
            for wire in ("http", "grpc"):
                own, other = (runs[name, wire] for name in ("penstock", "tritonclient"))
                ratio = statistics.median(a / b for a, b in zip(own, other, strict=True))
                medians = f"{statistics.median(own):,.0f} | {statistics.median(other):,.0f}"
                print(f"| {tensor} | {wire} | {medians} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
