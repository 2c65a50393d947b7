"""Clients' requests to load and unload models: who carries them out, and how they are answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock._repository import failures
from penstock.errors import PenstockError, StartupError

if TYPE_CHECKING:
    from penstock import _core

__all__ = ["Control", "answered", "carry_out"]

_log = logging.getLogger("penstock.repository")


class Control(Protocol):
    """What loads and unloads models when clients ask for it, in place of folders of a repository.

    It is asked on a thread of the server's own, by one client at a time, and there uses `Server.add` and
    `Server.remove`. What it raises of `penstock.errors` is the client's answer.

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
        """Loads a model, or loads it anew.

        Args:
            name: The model, as the client named it: any text.
            config: The document that came with the request, if one did.
            files: The files that came with it; none unless `load_files` is on.
        """

    def unload(self, name: str) -> None:
        """Unloads a model."""


def carry_out(control: Control, command: _core.Command, *, takes_files: bool) -> None:
    """Has a client's request carried out, and answers it."""
    name, load = command.model, command.load

    def do() -> None:
        if load is None:
            control.unload(name)
            return
        config, files = load
        if files and not takes_files:
            raise failures.no_files()
        control.load(name, config, files)

    answered(command, do)


def answered(command: _core.Command, do: Callable[[], None]) -> None:
    """Does what a client asked for, and answers as it went."""
    try:
        do()
    except PenstockError as error:
        command.refuse(error.kind if not isinstance(error, StartupError) else "handler", str(error))
    except BaseException:
        # This thread must outlive whatever a model's code does.
        name = failures.printable(command.model)
        _log.exception("model '%s': loading it failed", name)
        command.refuse("internal", f"model '{name}': the server failed to load it")
    else:
        command.done()
