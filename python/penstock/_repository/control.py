"""Clients' requests to load and unload models: execution and responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock._repository import failures
from penstock.errors import PenstockError, StartupError

if TYPE_CHECKING:
    from penstock import _core

__all__ = ["Control", "carry_out", "respond"]

_log = logging.getLogger("penstock.repository")


class Control(Protocol):
    """Loads and unloads models on clients' requests, in place of repository folders.

    The methods are called on a thread of the server, one at a time, and use `Server.add` and `Server.remove`.
    An exception of `penstock.errors` becomes the client's response.

    Example:
        >>> class Control:
        ...     def load(self, name, config, files):
        ...         server.add(read(name), replace=True)
        ...
        ...     def unload(self, name):
        ...         server.remove(name)
        >>> server = Server.empty(control=Control())
    """

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        """Loads or reloads a model.

        Args:
            name: The model's name from the request: any text.
            config: The configuration document of the request, if there is one.
            files: The files of the request; always empty unless `load_files` is on.
        """

    def unload(self, name: str) -> None:
        """Unloads a model."""


def carry_out(control: Control, command: _core.RepositoryCommand, *, takes_files: bool) -> None:
    """Executes a client's request with `control`, and responds."""
    name, load = command.model, command.load

    def run() -> None:
        if load is None:
            control.unload(name)
            return
        config, files = load
        if files and not takes_files:
            raise failures.no_files()
        control.load(name, config, files)

    respond(command, run)


def respond(command: _core.RepositoryCommand, run: Callable[[], None]) -> None:
    """Runs a client's request, and responds with success or with the error."""
    try:
        run()
    except PenstockError as error:
        command.fail(error.kind if not isinstance(error, StartupError) else "handler", str(error))
    except BaseException:
        # Code of a model may raise SystemExit and the like, which must not end this thread.
        name = failures.printable(command.model)
        _log.exception("model '%s': loading it failed", name)
        command.fail("internal", f"model '{name}': the server failed to load it")
    else:
        command.succeed()
