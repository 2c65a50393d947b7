"""Load failures: the public error for clients, and the log entry.

Clients get the class of an exception and its position in the model's own folder. Its text may contain anything,
for example a path, and goes to the log only.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Sequence

from penstock._runtime import tracebacks
from penstock.errors import HandlerError, InvalidInput, LoadError, PenstockError, Unsupported

__all__ = ["no_files", "of", "of_all", "printable"]

_log = logging.getLogger("penstock.repository")


def of(error: BaseException, name: str, version: str, folder: str) -> PenstockError:
    """The error for the client that requested the load. Logs the traceback."""
    if isinstance(error, InvalidInput):
        return error
    cause = _cause(error)
    _log.error(
        "model '%s' version '%s' could not be loaded\n%s", name, version, tracebacks.user_traceback(cause).rstrip()
    )
    return HandlerError(f"model '{name}' version '{version}' could not be loaded: {_public(cause, (folder,))}")


def of_all(error: BaseException, folders: Sequence[str]) -> PenstockError:
    """The error for a failed reload of all given models, whose files are in `folders`. Logs the traceback."""
    cause = _cause(error)
    _log.error("the models could not be reloaded, what serves goes on\n%s", tracebacks.user_traceback(cause).rstrip())
    return HandlerError(f"the models could not be reloaded: {_public(cause, folders)}")


def _cause(error: BaseException) -> BaseException:
    # The compiled extension wraps exceptions of building a handler, and an import those of the code.
    return error.__cause__ if isinstance(error, LoadError) and error.__cause__ is not None else error


def _public(error: BaseException, folders: Sequence[str]) -> str:
    is_public = isinstance(error, PenstockError) and not any(folder and folder in str(error) for folder in folders)
    position = next((position for folder in folders if (position := _position(error, folder))), "")
    return f"{' '.join(str(error).split()) if is_public else type(error).__name__}{position}"


def no_files() -> PenstockError:
    """The error for a client that sends files to a server without `load_files`."""
    return Unsupported("load parameters 'file:...' are refused: the server was not started with load_files")


def printable(text: str) -> str:
    """A client's text for a message: shortened, and without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text[:128])


def _position(error: BaseException, folder: str) -> str:
    if not folder:
        return ""
    file, line = None, None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(folder + os.sep):
            file, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(folder + os.sep):
        file, line = error.filename, error.lineno
    return f" ({os.path.relpath(file, folder)}, line {line})" if file else ""
