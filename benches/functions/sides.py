"""Servers and requests of the benchmark: Penstock with plain models and with each integration, and FastAPI."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.load.loader import Call
from benches.load.processes import Processes, free_ports
from benches.load.systems import VENVS

APPS = Path(__file__).parent / "apps"
PLACES = ("server", "process")
"""Process of user code: the server's, or a separate one."""
STARTS = 60.0
"""Seconds that a server may take to start."""
_TIMEOUT = 60.0
_TENSOR = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP64", "data": [1.5]}]}
_JSON = "content-type: application/json"


@dataclass(frozen=True)
class Server:
    """A server to start."""

    name: str
    command: Sequence[str]
    ready: str
    """A path that returns 200 when the server is ready."""


@dataclass(frozen=True)
class Question:
    """A request and its expected response."""

    server: Server
    path: str
    body: Any
    right: Any

    def fits(self, answer: Any) -> bool:
        """True if a response is right: by the numbers of the tensor `y`, or by its `data`."""
        if "outputs" in answer:
            return [one["data"] for one in answer["outputs"] if one["name"] == "y"] == [self.right]
        return bool(_near(answer.get("data"), self.right))


def _near(given: Any, right: Any) -> bool:
    if isinstance(right, list):
        return isinstance(given, list) and len(given) == len(right) and all(map(_near, given, right))
    return isinstance(given, (int, float)) and abs(given - right) < 1e-9


def penstock(name: str, path: Path, ready: str, *options: str) -> Server:
    """`penstock serve` of an app."""
    told = [part for option in options for part in ("--option", option)]
    return Server(name, [sys.executable, "-m", "penstock", "serve", str(path), *told, "--grpc", "off"], ready)


def fastapi() -> Server:
    """FastAPI with rows, in the environment of benches/load."""
    python = VENVS / "fastapi" / "bin" / "python"
    return Server("fastapi", [str(python), str(APPS / "fastapi_rows.py")], "/ready")


def plain(place: str, kind: str = "plain") -> Question:
    """A native model: `plain` (declared tensors), `open` (raw requests), or `routed`."""
    server = penstock("native", APPS / "native.py", "/v2/health/ready")
    if kind == "routed":
        return Question(server, f"/routed/{place}", {"data": 1.5}, 3.0)
    return Question(server, f"/v2/models/{kind}_{place}/infer", _TENSOR, [3.0])


def integration(name: str, place: str) -> Question:
    """The function served through an integration."""
    isolation = f"isolation={place}"
    if name == "modelbit":
        server = penstock(f"modelbit-{place}", APPS / "deployments" / "double", "/v1/double", isolation)
        return Question(server, "/v1/double/latest", {"data": 1.5}, 3.0)
    folder = APPS / ("inferless_app" if name == "inferless" else "openinference_function")
    model = "inferless_app" if name == "inferless" else "openinference_double"
    server = penstock(f"{name}-{place}", folder, "/v2/health/ready", isolation)
    return Question(server, f"/v2/models/{model}/infer", _TENSOR, [3.0])


class Running:
    """Running servers; each starts with its first request, and ends with the block."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._addresses: dict[str, str] = {}

    def call(self, question: Question) -> Call:
        """The request of the loader."""
        address = self._address(question.server)
        name = f"{question.server.name}{question.path}".replace("/", "_")
        body = self._folder / name
        body.write_text(json.dumps(question.body))
        return Call("http", address, question.path, body, (_JSON,), _TIMEOUT)

    def check(self, question: Question) -> float:
        """Sends one request, and returns its seconds.

        Raises:
            RuntimeError: the response is wrong.
        """
        url = f"http://{self._address(question.server)}{question.path}"
        asked = urllib.request.Request(url, json.dumps(question.body).encode(), {"content-type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(asked, timeout=_TIMEOUT) as answer:
            body = answer.read()
        took = time.perf_counter() - began
        told = json.loads(body)
        if not question.fits(told):
            raise RuntimeError(f"{question.server.name} answered {url} with {str(told)[:300]}")
        return took

    def _address(self, server: Server) -> str:
        if server.name not in self._addresses:
            self._addresses[server.name] = self._stack.enter_context(_serving(server, self._folder))
        return self._addresses[server.name]


@contextmanager
def running() -> Iterator[Running]:
    """Starts servers on demand, and ends them all."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield Running(Path(folder), stack)


@contextmanager
def _serving(server: Server, folder: Path) -> Iterator[str]:
    if not Path(server.command[0]).exists():
        raise SystemExit(f"there is no {server.command[0]}; see benches/load/README.md")
    (port,) = free_ports(1)
    where = [str(port)] if server.name == "fastapi" else ["--http", f"127.0.0.1:{port}"]
    # Numerical libraries would use all cores for one call, and hide the cost of the server.
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    processes = Processes([*server.command, *where], environment=environment, log=folder / f"{server.name}.log")
    try:
        processes.until_ready(f"http://127.0.0.1:{port}{server.ready}", STARTS)
        yield f"127.0.0.1:{port}"
    finally:
        processes.stop()
