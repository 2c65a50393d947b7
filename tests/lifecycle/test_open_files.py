"""The limit of open files at the start: raised by a process that only serves, and reported where it is too low."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving_process import Serving

LOOPBACK = ("--http", "127.0.0.1:0", "--grpc", "off")
EMBEDDED = """
import logging, resource
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
from penstock import Server, ServerConfig

config = ServerConfig(http="127.0.0.1:0", grpc=None, max_connections={max_connections})
for _ in range(2):
    with Server.empty(config=config):
        print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limited(soft: int, hard: int) -> tuple[str, ...]:
    """The start of a command that runs with these limits of open files."""
    return "sh", "-c", f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$@"', "sh"


def warning(max_connections: int, soft: int, hard: int) -> str:
    needed = max_connections + 128
    return (
        f"max_connections is {max_connections}, which needs {needed} open files, but this process may open {soft} "
        f"(hard limit: {hard}); further connections will wait until others close: start it after `ulimit -n {needed}` "
        "(systemd: LimitNOFILE=, docker: --ulimit nofile=), or lower max_connections\n"
    )


def soft_and_hard(process: int) -> list[int]:
    limits = Path(f"/proc/{process}/limits").read_text()
    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    return [int(word) for word in line.split()[3:5]]


@pytest.mark.parametrize(("max_connections", "soft"), [(100, 256), (128, 256), (129, 257), (500, 628)])
def test_serve_raises_the_soft_limit_as_far_as_connections_need(max_connections: int, soft: int) -> None:
    arguments = ("double.py", *LOOPBACK, "--max-connections", str(max_connections))
    with Serving(*arguments, prefix=limited(256, 1000)) as server:
        assert soft_and_hard(server.process.pid) == [soft, 1000]
        assert "open files" not in server.err


def test_serve_warns_if_the_hard_limit_is_too_low() -> None:
    arguments = ("double.py", *LOOPBACK, "--max-connections", "500")
    with Serving(*arguments, prefix=limited(256, 627)) as server:
        assert soft_and_hard(server.process.pid) == [627, 627]
        server.await_stderr(warning(500, 627, 627))


@pytest.mark.parametrize(("max_connections", "expected"), [(128, ""), (129, "INFO " + warning(129, 256, 1000))])
def test_embedded_server_informs_once_and_leaves_the_limit(max_connections: int, expected: str) -> None:
    script = EMBEDDED.format(max_connections=max_connections)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    done = subprocess.run(
        [*limited(256, 1000), sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "256 1000\n" * 2
    assert done.stderr == expected


def test_serve_function_restores_the_limit() -> None:
    script = """
import os, resource, signal, threading
import numpy as np
from penstock import Tensor, model, serve

@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
class Same:
    def __init__(self):
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.kill(os.getpid(), signal.SIGTERM)

    def __call__(self, x):
        return x

serve(Same, http="127.0.0.1:0", grpc=None, max_connections=500)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    done = subprocess.run(
        [*limited(256, 1000), sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[0] == "628"
    assert done.stdout.splitlines()[-1] == "256"
