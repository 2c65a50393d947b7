"""An example that adds and subtracts, called by every client: in this process, and as a script of its own."""

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

__all__ = ["by_script", "in_process", "serve"]

Array = npt.NDArray[Any]

_PATIENCE = 60.0
"""Seconds that anything here may take."""
_A = np.array([[3.0, 5.0]], np.float32)
_B = np.array([[1.0, 2.0]], np.float32)
_INPUTS = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("a", "b")]
_OUTPUTS = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("add", "sub")]


@batch
def _add_sub(a: Array, b: Array) -> dict[str, Array]:
    return {"add": a + b, "sub": a - b}


@batch
def _one_by_one(a: Array, b: Array) -> Iterator[dict[str, Array]]:
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
    triton.bind("AddSubStream", _one_by_one, _INPUTS, _OUTPUTS, config=ModelConfig(decoupled=True))
    return triton


def in_process(workspace: Path, logger: logging.Logger) -> None:
    """Serves the example here, and calls it."""
    del workspace
    triton = _server()
    with triton:
        _call(_url(triton, "http"), _url(triton, "grpc"), logger)


def by_script(workspace: Path, logger: logging.Logger) -> None:
    """Serves the example in a process of its own, calls it from here, and ends it by SIGINT.

    Raises:
        RuntimeError: it does not start, or ends otherwise.
    """
    script = workspace / "server.py"
    script.write_text("from penstock.compat.pytriton.check._smoke_test import serve\n\nserve()\n")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            urls = process.stdout.readline().split()
            if len(urls) != 2:
                raise RuntimeError(f"the script does not serve; its exit status is {process.wait(_PATIENCE)}")
            _call(urls[0], urls[1], logger)
            process.send_signal(signal.SIGINT)
            if status := process.wait(_PATIENCE):
                raise RuntimeError(f"the script was to end by SIGINT with 0, and its exit status is {status}")
            logger.info("the script ended by SIGINT")
        finally:
            process.kill()


def serve() -> None:
    """Serves the example in the foreground, once it has said where."""
    triton = _server()
    with triton:
        sys.stdout.write(f"{_url(triton, 'http')} {_url(triton, 'grpc')}\n")
        sys.stdout.flush()
        triton.serve()


def _url(triton: Triton, protocol: str) -> str:
    assert triton._triton_server is not None
    return triton._triton_server.get_endpoint(protocol)


def _call(http: str, grpc: str, logger: logging.Logger) -> None:
    for url in (http, grpc):
        _try(logger, "ModelClient", url, _sync)
        _try(logger, "FuturesModelClient", url, _futures)
        _try(logger, "AsyncioModelClient", url, _asyncio)
    _try(logger, "DecoupledModelClient", grpc, _decoupled)
    _try(logger, "AsyncioDecoupledModelClient", grpc, _asyncio_decoupled)


def _try(logger: logging.Logger, client: str, url: str, call: Callable[[str], Any]) -> None:
    began = time.perf_counter()
    made = call(url)
    answers: list[dict[str, Array]] = asyncio.run(made) if asyncio.iscoroutine(made) else made
    took = (time.perf_counter() - began) * 1e3
    for answer in answers:
        np.testing.assert_array_equal(answer["add"], _A + _B)
        np.testing.assert_array_equal(answer["sub"], _A - _B)
    if not answers:
        raise RuntimeError(f"{client} got no answer of {url}")
    logger.info("%s of %s: well, in %.1f ms", client, url, took)


def _sync(url: str) -> list[dict[str, Array]]:
    with ModelClient(url, "AddSub") as client:
        return [client.infer_batch(_A, _B)]


def _futures(url: str) -> list[dict[str, Array]]:
    with FuturesModelClient(url, "AddSub") as client:
        return [one.result() for one in [client.infer_batch(a=_A, b=_B) for _ in range(4)]]


async def _asyncio(url: str) -> list[dict[str, Array]]:
    async with AsyncioModelClient(url, "AddSub") as client:
        return [await client.infer_batch(_A, _B)]


def _decoupled(url: str) -> list[dict[str, Array]]:
    with DecoupledModelClient(url, "AddSubStream") as client:
        return [*client.infer_batch(_A, _B)]


async def _asyncio_decoupled(url: str) -> list[dict[str, Array]]:
    async with AsyncioDecoupledModelClient(url, "AddSubStream") as client:
        return [one async for one in client.infer_batch(_A, _B)]
