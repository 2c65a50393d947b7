"""`penstock serve PATH --in-image`: serves what was built last of a path, by docker or podman."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from penstock._images import builders, recording
from penstock._images.describing import split
from penstock._images.recording import Built
from penstock._say import say
from penstock.config import ServerConfig
from penstock.errors import StartupError

__all__ = ["run"]

_STOP_WITHIN = 10
"""Seconds beyond `drain_timeout` that a container has to end."""


def run(targets: Sequence[str], config: ServerConfig, given: Mapping[str, str]) -> int:
    """Becomes the container of a path's image.

    Args:
        targets: The path, alone.
        config: All settings: what of them is about addresses is done outside of the container.
        given: The settings that the command line has, as text.

    Raises:
        StartupError: there is no image, nothing here runs one, or a setting cannot be had with one.
    """
    if len(targets) != 1:
        raise StartupError(f"--in-image serves the image of one path, not of {len(targets)}")
    built = recording.read(split(targets[0])[0])
    if built is None:
        raise StartupError(f"no image was built of {targets[0]} yet: use penstock build {targets[0]} -t NAME")
    runner = builders.find_runner(built.builder)
    command = [runner.name, *_words(built, config, given)]
    say(f"penstock: serving {built.image}, as it was built, with {runner.name}")
    sys.stdout.flush()
    # This process becomes the container's: signals reach it, and its exit status is the answer.
    os.execvp(command[0], command)  # noqa: S606 - that is what was asked for


def _words(built: Built, config: ServerConfig, given: Mapping[str, str]) -> list[str]:
    words = ["run", "--rm", "--stop-timeout", str(int(config.drain_timeout) + _STOP_WITHIN)]
    words += _published("http", config.http, built.http_port)
    if built.grpc_port is not None and config.grpc != "same":
        words += _published("grpc", config.grpc, built.grpc_port)
    for name, text in given.items():
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
