"""Smoke test: a model that adds and subtracts, called by every client, in this process and as a script."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.client import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
)
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.compat.pytriton.triton import Triton, TritonConfig

__all__ = ["run_in_process", "run_script", "serve"]

Array = npt.NDArray[Any]

_TIMEOUT = 60.0
"""Seconds that one step may take."""
_A = np.array([[3.0, 5.0]], np.float32)
_B = np.array([[1.0, 2.0]], np.float32)
_INPUTS = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("a", "b")]
_OUTPUTS = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("add", "sub")]


@batch
def _add_sub(a: Array, b: Array) -> dict[str, Array]:
    return {"add": a + b, "sub": a - b}


@batch
def _add_sub_twice(a: Array, b: Array) -> Iterator[dict[str, Array]]:
    yield {"add": a + b, "sub": a - b}
    yield {"add": a + b, "sub": a - b}


def _server() -> Triton:
    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=0,
        grpc_address="127.0.0.1",
        grpc_port=0,
        metrics_address="127.0.0.1",
        metrics_port=0,
    )
    triton = Triton(config=config)
    triton.bind("AddSub", _add_sub, _INPUTS, _OUTPUTS, config=ModelConfig(max_batch_size=16))
    triton.bind("AddSubStream", _add_sub_twice, _INPUTS, _OUTPUTS, config=ModelConfig(decoupled=True))
    return triton


def run_in_process(workspace: Path, logger: logging.Logger) -> None:
    """Serves the example in this process, and calls it."""
    del workspace
    triton = _server()
    with triton:
        _run_clients(_url(triton, "http"), _url(triton, "grpc"), logger)


def run_script(workspace: Path, logger: logging.Logger) -> None:
    """Serves the example in a child process, calls it, and stops it with SIGINT.

    Raises:
        RuntimeError: the script does not start, or its exit status is not 0.
    """
    script = workspace / "server.py"
    script.write_text("from penstock.compat.pytriton.check._smoke_test import serve\n\nserve()\n")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            urls = process.stdout.readline().split()
            if len(urls) != 2:
                raise RuntimeError(f"the script did not start: got exit status {process.wait(_TIMEOUT)}")
            _run_clients(urls[0], urls[1], logger)
            process.send_signal(signal.SIGINT)
            if status := process.wait(_TIMEOUT):
                raise RuntimeError(f"the script ended on SIGINT: got exit status {status}, expected 0")
            logger.info("the script ended on SIGINT")
        finally:
            process.kill()


def serve() -> None:
    """Serves the example in the foreground, after it has printed its URLs."""
    triton = _server()
    with triton:
        sys.stdout.write(f"{_url(triton, 'http')} {_url(triton, 'grpc')}\n")
        sys.stdout.flush()
        triton.serve()


def _url(triton: Triton, protocol: str) -> str:
    assert triton._triton_server is not None
    return triton._triton_server.get_endpoint(protocol)


def _run_clients(http: str, grpc: str, logger: logging.Logger) -> None:
    for url in (http, grpc):
        _run_client(logger, "ModelClient", url, _run_model_client)
        _run_client(logger, "FuturesModelClient", url, _run_futures)
        _run_client(logger, "AsyncioModelClient", url, _run_asyncio)
    _run_client(logger, "DecoupledModelClient", grpc, _run_decoupled)
    _run_client(logger, "AsyncioDecoupledModelClient", grpc, _run_asyncio_decoupled)


def _run_client(logger: logging.Logger, client: str, url: str, run: Callable[[str], Any]) -> None:
    start = time.perf_counter()
    returned = run(url)
    responses: list[dict[str, Array]] = asyncio.run(returned) if asyncio.iscoroutine(returned) else returned
    duration_ms = (time.perf_counter() - start) * 1e3
    for response in responses:
        np.testing.assert_array_equal(response["add"], _A + _B)
        np.testing.assert_array_equal(response["sub"], _A - _B)
    if not responses:
        raise RuntimeError(f"{client}: got no response from {url}")
    logger.info("%s with %s: passed in %.1f ms", client, url, duration_ms)


def _run_model_client(url: str) -> list[dict[str, Array]]:
    with ModelClient(url, "AddSub") as client:
        return [client.infer_batch(_A, _B)]


def _run_futures(url: str) -> list[dict[str, Array]]:
    with FuturesModelClient(url, "AddSub") as client:
        return [one.result() for one in [client.infer_batch(a=_A, b=_B) for _ in range(4)]]


async def _run_asyncio(url: str) -> list[dict[str, Array]]:
    async with AsyncioModelClient(url, "AddSub") as client:
        return [await client.infer_batch(_A, _B)]


def _run_decoupled(url: str) -> list[dict[str, Array]]:
    with DecoupledModelClient(url, "AddSubStream") as client:
        return [*client.infer_batch(_A, _B)]


async def _run_asyncio_decoupled(url: str) -> list[dict[str, Array]]:
    async with AsyncioDecoupledModelClient(url, "AddSubStream") as client:
        return [one async for one in client.infer_batch(_A, _B)]
