"""A real server whose `penstock.toml` changes while it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from http_by_hand import get
from serving_process import Serving
from waiting import until

BASE = {"http": "127.0.0.1:0", "grpc": "off"}


class Configured:
    """A server, and its file."""

    def __init__(self, server: Serving, path: Path) -> None:
        self.server, self.path = server, path

    @property
    def url(self) -> str:
        return self.server.http

    def settings(self) -> Any:
        return get(self.url, "/debug/config").json()["settings"]

    def write(self, text: str) -> None:
        write(self.path, text)

    def reload(self, expected: str = " read, 1 changed\n", **settings: object) -> None:
        """Replaces settings in the file, sends SIGHUP, and waits for the report and for the end of the reload."""
        self.write(toml({**BASE, **settings}))
        self.reload_again(expected)

    def reload_again(self, expected: str) -> None:
        reports, reloads = (self.server.err.count(text) for text in (expected, "penstock: reloaded in"))
        self.server.signal(signal.SIGHUP)
        until(lambda: self.server.err.count(expected) > reports, f"{expected!r} after {self.server.err}")
        until(lambda: self.server.err.count("penstock: reloaded in") > reloads, "the end of the reload")


def toml(settings: dict[str, object]) -> str:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)

    return "[server]\n" + "".join(f"{name} = {text(value)}\n" for name, value in settings.items())


def write(path: Path, text: str) -> None:
    """Writes a file atomically, as Kubernetes does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


@contextmanager
def configured(
    folder: Path,
    code: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    **settings: object,
) -> Iterator[Configured]:
    """`penstock serve` of this code with these settings in its file, which `--config` names."""
    (folder / "app.py").write_text(code)
    path = folder / "server.toml"
    write(path, toml({**BASE, **settings}))
    command = ("app.py", "--config", "server.toml", *arguments)
    with Serving(*command, folder=folder, environment=environment) as server:
        yield Configured(server, path)
