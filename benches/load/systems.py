"""The servers under test: their start and requests."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benches.load.loader import LIMIT

SERVERS = Path(__file__).parent / "servers"
VENVS = Path(os.environ.get("BENCH_VENVS", Path(__file__).parents[2] / "bench-data" / "venvs"))
GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"

_PROTOCOL = {"json": "json", "bin": "bin", "grpc": "grpc"}


_TYPED = {**_PROTOCOL, "records": "records"}


def _protocol_path(model: str, dialect: str) -> str:
    return f"/models/{model}" if dialect == "records" else f"/v2/models/{model}/infer"


@dataclass(frozen=True)
class Launch:
    """Values of a command line."""

    http: int
    grpc: int
    answers: Mapping[str, Path]
    """Files with the right responses by wire format, for the echo."""


@dataclass(frozen=True)
class System:
    """A server under test."""

    name: str
    command: Callable[[Launch], list[str]]
    dialects: Mapping[str, str] = field(default_factory=lambda: _PROTOCOL)
    """Wire format to this server's dialect."""
    path: Callable[[str, str], str] = _protocol_path
    """Model and dialect to the HTTP path."""
    batching: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    same_answers: bool = True
    """True if equal requests get equal bytes; False if each response has a unique id."""
    venv: str | None = None
    """The virtual environment below `BENCH_VENVS`; None: the interpreter that runs the benchmark."""

    def missing(self) -> str | None:
        """The reason why it is skipped; None if it runs."""
        if self.venv is None or (VENVS / self.venv / "bin" / "python").exists():
            return None
        return f"no virtual environment {VENVS / self.venv}"


def _peer(
    name: str,
    *,
    venv: str | None = None,
    script: str | None = None,
    dialects: Mapping[str, str] = _PROTOCOL,
    path: Callable[[str, str], str] = _protocol_path,
    batching: bool = True,
    environment: Mapping[str, str] | None = None,
    same_answers: bool = True,
) -> System:
    folder = venv or name
    file = SERVERS / f"{(script or name).replace('-', '_')}_server.py"
    command = [str(VENVS / folder / "bin" / "python"), str(file)]
    return System(name, lambda _launch: command, dialects, path, batching, environment or {}, same_answers, folder)


def _limit(name: str, mode: str, dialects: Mapping[str, str] = _PROTOCOL) -> System:
    def command(launch: Launch) -> list[str]:
        answers = [str(launch.answers[wire]) for wire in ("json", "bin", "grpc")]
        return [str(LIMIT), str(launch.http), str(launch.grpc), *answers, mode]

    return System(name, command, dialects)


def _by_hand(name: str, dialects: Mapping[str, str] | None = None) -> System:
    """A server with a hand-written route, without a batcher."""
    dialects = {"json": "json", "bin": "raw", **(dialects or {})}
    return _peer(name, dialects=dialects, path=_by_hand_path, batching=False)


def _by_hand_path(model: str, dialect: str) -> str:
    return f"/raw/{model}" if dialect == "raw" else _protocol_path(model, dialect)


# Triton's Python backend loads the libpython of the interpreter that runs it, not the distribution's.
_LIBPYTHON = {"LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR") or "")}

# Its documented settings for throughput: HAProxy in front, and gRPC between its processes.
_RAY_FAST = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
}

_LIST = [
    _limit("echo", "threads"),
    _limit("echo-1", "thread"),
    _limit("epoll", "epoll", {"json": "json", "bin": "bin"}),
    System("penstock", lambda _launch: [sys.executable, str(SERVERS / "penstock_server.py")], _TYPED),
    System("inline", lambda _launch: [sys.executable, str(SERVERS / "penstock_server.py"), "inline"]),
    System("processes", lambda _launch: [sys.executable, str(SERVERS / "penstock_server.py"), "processes"]),
    _peer("triton-py", venv="pytriton", environment=_LIBPYTHON),
    _peer("pytriton", environment=_LIBPYTHON),
    _peer("mosec", dialects={"json": "json", "bin": "msgpack"}, path=lambda model, dialect: f"/{dialect}/{model}"),
    _peer("kserve", batching=False),
    _peer("mlserver", dialects={"json": "json", "grpc": "grpc"}, same_answers=False),
    _peer("litserve", dialects={"json": "json", "bin": "b64"}, path=lambda model, _dialect: f"/predict/{model}"),
    _peer("bentoml", dialects={"json": "rows"}, path=lambda model, _dialect: f"/{model}"),
    _peer("ray", dialects={"json": "json"}, path=lambda model, _dialect: f"/{model}"),
    _peer(
        "ray-fast",
        venv="ray",
        script="ray",
        dialects={"json": "json"},
        path=lambda model, _dialect: f"/{model}",
        environment=_RAY_FAST,
    ),
    _by_hand("fastapi", {"records": "records"}),
    _by_hand("granian"),
    _by_hand("fastpysgi"),
]

SYSTEMS: Mapping[str, System] = {system.name: system for system in _LIST}
"""The servers by name."""

ECHO = "echo"
"""Bare axum and tonic on all cores, the limit that all are compared with."""

LIMITS = (ECHO, "echo-1", "epoll")
"""Servers that respond with fixed bytes."""
