"""Command line of this process, to be started again: by the path or name by which it was found the first time."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Program"]


@dataclass(frozen=True, slots=True)
class Program:
    """A command line with its folder and environment, as they were when the process started."""

    command: Sequence[str]
    folder: str
    environ: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> Self:
        """That of this process. Call it first: code of the user may change the folder and the environment."""
        return cls(_command(), _folder(), dict(os.environ))

    def found(self) -> list[str]:
        """The command line with the program as it is found now: links are followed again, and `PATH` is searched.

        Raises:
            OSError: there is no such program.
        """
        name, *arguments = self.command
        if "/" in name and os.path.exists(os.path.join(self.folder, name)):
            return [name, *arguments]
        # An upgrade may have moved it.
        path = shutil.which(os.path.basename(name), path=self.environ.get("PATH"))
        if path is None:
            raise FileNotFoundError(f"{name} is not found any more, neither there nor in PATH")
        return [path, *arguments]


def _command() -> list[str]:
    """The script, if it is a program itself; else the interpreter with its options."""
    interpreter, *arguments = sys.orig_argv
    if arguments[:1] == sys.argv[:1] and os.access(arguments[0], os.X_OK):
        # Its first line names an interpreter, which may become another one.
        return arguments
    return [interpreter or sys.executable, *arguments]


def _folder() -> str:
    """The working directory, by the path with links that a shell has for it."""
    current, shown = os.getcwd(), os.environ.get("PWD", "")
    try:
        return shown if os.path.isabs(shown) and os.path.samefile(shown, current) else current
    except OSError:
        return current
