"""`penstock serve PATH` in the image that was built of the path, with docker or podman."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from penstock._config.listeners import bare
from penstock._images import builders, record
from penstock._images.builders import Builder
from penstock._images.describe import split
from penstock._images.fingerprint import stamp
from penstock._images.record import Built
from penstock._runtime.console import echo
from penstock.config import ServerConfig
from penstock.errors import StartupError

__all__ = ["ServeRequest", "run", "run_if_unchanged"]

_STOP_TIMEOUT = 10
"""Seconds beyond `drain_timeout` that a container has to end."""

_KINDS = {field.name: field.metadata["kind"] for field in fields(ServerConfig)}
_SAME_IN_IMAGES = {"switch", "seconds", "size", "count", "positive"}
_ALSO_SAME = {"http", "grpc", "log_level", "access_log", "dialect", "server_name", "server_version"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeRequest:
    """Arguments of `penstock serve`."""

    targets: Sequence[str]
    config: ServerConfig
    """All settings. Addresses are those outside of the container."""
    given: Mapping[str, str]
    """Settings from the command line, as text."""
    file: str | None = None
    """The configuration file of `--config`."""
    code_only: bool = False
    """True if there are options for code only: an integration, its options, or reload."""

    @property
    def variables(self) -> list[str]:
        """Settings from the environment."""
        return [name for name in _KINDS if f"PENSTOCK_{name.upper()}" in os.environ and name not in self.given]


def run(request: ServeRequest) -> int:
    """Runs the image of a path: this process becomes its container.

    Raises:
        StartupError: there is no image, no program to run it, or a setting that does not work in a container.
    """
    targets = request.targets
    if len(targets) != 1:
        raise StartupError(f"--in-image serves the image of one path, not of {len(targets)}")
    built = record.read(split(targets[0])[0])
    if built is None:
        raise StartupError(f"no image was built of {targets[0]} yet: use penstock build {targets[0]} -t NAME")
    runner = builders.find_runner(built.builder)
    command = [runner.name, *_arguments(built, request)]
    echo(f"penstock: serving {built.image}, as it was built, with {runner.name}")
    sys.stdout.flush()
    # By exec: signals and the exit status are those of the container.
    os.execvp(command[0], command)  # noqa: S606 - the purpose of the command


def run_if_unchanged(request: ServeRequest) -> None:
    """Runs the image of a path if the files have not changed since the build; else prints the reason and returns."""
    if len(request.targets) != 1 or request.code_only:
        return
    target = request.targets[0]
    path, object_name = split(target)
    built = record.read(path) if path.exists() else None
    if built is None:
        return
    reason = _change(built, path, object_name) or _local_option(request, path) or _unavailable(built)
    if reason:
        echo(f"penstock: serving the code of {target}, not {built.image}: {reason}")
        return
    echo(f"penstock: {target} has not changed since {built.image} was built; --no-in-image serves its code")
    run(request)


def _change(built: Built, path: Path, object_name: str) -> str | None:
    return (
        None if built.sources and built.sources == stamp(path, object_name) else "it may have changed since the build"
    )


def _local_option(request: ServeRequest, path: Path) -> str | None:
    """The first setting whose meaning may differ in a container; None if there is none."""
    for name in [*request.given, *request.variables]:
        if _KINDS[name] not in _SAME_IN_IMAGES and name not in _ALSO_SAME:
            return f"{name} is of this machine"
    for name in ("http", "grpc"):
        if str(getattr(request.config, name)).startswith(("unix:", "fd:")):
            return f"{name} is of this machine"
    folder = path if path.is_dir() else path.parent
    if request.file or "PENSTOCK_CONFIG" in os.environ:
        return "its settings are in a file of this machine"
    if Path("penstock.toml").exists() and folder.resolve() != Path.cwd():
        return "its settings are in penstock.toml here"
    return None


def _unavailable(built: Built) -> str | None:
    try:
        runner = builders.find_runner(built.builder)
    except StartupError as error:
        return str(error)
    return (
        None if _id(runner, built.image) == built.id.removeprefix("sha256:") else f"{runner.name} has another, or none"
    )


def _id(runner: Builder, image: str) -> str:
    command = [runner.name, "image", "inspect", "--format", "{{.Id}}", image]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)  # noqa: S603 - a fixed command
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("sha256:")


def _arguments(built: Built, request: ServeRequest) -> list[str]:
    config = request.config
    arguments = ["run", "--rm", "--stop-timeout", str(int(config.drain_timeout) + _STOP_TIMEOUT)]
    arguments += _published("http", config.http, built.http_port)
    if config.grpc == "same":
        arguments += ["--env", "PENSTOCK_GRPC=same"]
    elif built.grpc_port is not None:
        arguments += _published("grpc", config.grpc, built.grpc_port)
    for name in request.variables:
        if name not in ("http", "grpc"):
            # Without the value, which other users could read in the process list.
            arguments += ["--env", f"PENSTOCK_{name.upper()}"]
    for name, text in request.given.items():
        if name not in ("http", "grpc"):
            arguments += ["--env", f"PENSTOCK_{name.upper()}={text}"]
    return [*arguments, built.image]


def _published(name: str, address: str | None, port: int) -> list[str]:
    if address is None:
        return []
    if address.startswith(("unix:", "fd:")):
        raise StartupError(f"{name}: {address} does not work with --in-image, expected HOST:PORT")
    host, _, number = bare(address).rpartition(":")
    # 0 chooses a free port, as everywhere.
    return ["--publish", f"{host}:{'' if number == '0' else number}:{port}"]
