"""`penstock serve PATH` of what an image was built of: served in that image, by docker or podman."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from penstock._images import builders, record
from penstock._images.builders import Builder
from penstock._images.describe import split
from penstock._images.fingerprint import stamp
from penstock._images.record import Built
from penstock._runtime.console import echo
from penstock.config import ServerConfig
from penstock.errors import StartupError

__all__ = ["Asked", "run", "run_if_unchanged"]

_STOP_WITHIN = 10
"""Seconds beyond `drain_timeout` that a container has to end."""

_KINDS = {field.name: field.metadata["kind"] for field in fields(ServerConfig)}
_SAME_IN_IMAGES = {"switch", "seconds", "size", "count", "positive", "429|503", "504|503"}
_ALSO_SAME = {"http", "grpc", "log_level", "access_log", "server_name", "server_version"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the command line asks for."""

    targets: Sequence[str]
    config: ServerConfig
    """All settings: what of them is about addresses is done outside of the container."""
    given: Mapping[str, str]
    """The settings that the command line has, as text."""
    file: str | None = None
    """The configuration file that is named."""
    code_only: bool = False
    """Whether something was asked for that only code can have: an integration, an option, to be loaded anew."""

    @property
    def variables(self) -> list[str]:
        """The settings that come from the environment."""
        return [name for name in _KINDS if f"PENSTOCK_{name.upper()}" in os.environ and name not in self.given]


def run(asked: Asked) -> int:
    """Becomes the container of a path's image.

    Raises:
        StartupError: there is no image, nothing here runs one, or a setting cannot be had with one.
    """
    targets = asked.targets
    if len(targets) != 1:
        raise StartupError(f"--in-image serves the image of one path, not of {len(targets)}")
    built = record.read(split(targets[0])[0])
    if built is None:
        raise StartupError(f"no image was built of {targets[0]} yet: use penstock build {targets[0]} -t NAME")
    runner = builders.find_runner(built.builder)
    command = [runner.name, *_words(built, asked)]
    echo(f"penstock: serving {built.image}, as it was built, with {runner.name}")
    sys.stdout.flush()
    # This process becomes the container's: signals reach it, and its exit status is the answer.
    os.execvp(command[0], command)  # noqa: S606 - that is what was asked for


def run_if_unchanged(asked: Asked) -> None:
    """Becomes the container, if an image was built of just this and can be run; else says why not, and comes back."""
    if len(asked.targets) != 1 or asked.code_only:
        return
    target = asked.targets[0]
    path, named = split(target)
    built = record.read(path) if path.exists() else None
    if built is None:
        return
    why_not = _differs(built, path, named) or _only_here(asked, path) or _gone(built)
    if why_not:
        echo(f"penstock: serving the code of {target}, not {built.image}: {why_not}")
        return
    echo(f"penstock: {target} is as it was when {built.image} was built of it; --no-in-image serves its code")
    run(asked)


def _differs(built: Built, path: Path, named: str) -> str | None:
    return None if built.sources and built.sources == stamp(path, named) else "it may have changed since that was built"


def _only_here(asked: Asked, path: Path) -> str | None:
    """What is asked for and could mean something else in a container."""
    for name in [*asked.given, *asked.variables]:
        if _KINDS[name] not in _SAME_IN_IMAGES and name not in _ALSO_SAME:
            return f"{name} is of this machine"
    for name in ("http", "grpc"):
        if str(getattr(asked.config, name)).startswith("unix:"):
            return f"{name} is of this machine"
    folder = path if path.is_dir() else path.parent
    if asked.file or "PENSTOCK_CONFIG" in os.environ:
        return "its settings are in a file of this machine"
    if Path("penstock.toml").exists() and folder.resolve() != Path.cwd():
        return "its settings are in penstock.toml here"
    return None


def _gone(built: Built) -> str | None:
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


def _words(built: Built, asked: Asked) -> list[str]:
    config = asked.config
    words = ["run", "--rm", "--stop-timeout", str(int(config.drain_timeout) + _STOP_WITHIN)]
    words += _published("http", config.http, built.http_port)
    if config.grpc == "same":
        words += ["--env", "PENSTOCK_GRPC=same"]
    elif built.grpc_port is not None:
        words += _published("grpc", config.grpc, built.grpc_port)
    for name in asked.variables:
        if name not in ("http", "grpc"):
            # Without its value, which others could read among the words of this command.
            words += ["--env", f"PENSTOCK_{name.upper()}"]
    for name, text in asked.given.items():
        if name not in ("http", "grpc"):
            words += ["--env", f"PENSTOCK_{name.upper()}={text}"]
    return [*words, built.image]


def _published(name: str, address: str | None, port: int) -> list[str]:
    if address is None:
        return []
    if address.startswith("unix:"):
        raise StartupError(f"{name}: {address} cannot be had with --in-image, expected HOST:PORT")
    host, _, number = address.rpartition(":")
    # 0 has one chosen, as everywhere.
    return ["--publish", f"{host}:{'' if number == '0' else number}:{port}"]
