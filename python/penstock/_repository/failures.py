"""Why a model could not be loaded: what clients are told, and what the log is.

Clients are told the class of an exception and where in the model's own folder it came from. Its text may
hold anything, a path for one, and goes to the log only.
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


def of(error: BaseException, name: str, version: str, place: str) -> PenstockError:
    """The answer to who asked for the load, whose text is public; the log gets the rest."""
    if isinstance(error, InvalidInput):
        return error
    cause = _cause(error)
    _log.error(
        "model '%s' version '%s' could not be loaded\n%s", name, version, tracebacks.user_traceback(cause).rstrip()
    )
    return HandlerError(f"model '{name}' version '{version}' could not be loaded: {_public(cause, (place,))}")


def of_all(error: BaseException, places: Sequence[str]) -> PenstockError:
    """As `of`, where what serves was to be loaded anew from files in some folders."""
    cause = _cause(error)
    _log.error(
        "the models could not be loaded anew, what serves goes on\n%s", tracebacks.user_traceback(cause).rstrip()
    )
    return HandlerError(f"the models could not be loaded anew: {_public(cause, places)}")


def _cause(error: BaseException) -> BaseException:
    # The compiled part wraps what a handler raised while it was built, and an import what the code raised.
    return error.__cause__ if isinstance(error, LoadError) and error.__cause__ is not None else error


def _public(error: BaseException, places: Sequence[str]) -> str:
    own = isinstance(error, PenstockError) and not any(place and place in str(error) for place in places)
    where = next((found for place in places if (found := _where(error, place))), "")
    return f"{' '.join(str(error).split()) if own else type(error).__name__}{where}"


def no_files() -> PenstockError:
    """The answer to who sends a model's files where none are taken."""
    return Unsupported("load parameters 'file:...' are refused: the server was not started with load_files")


def printable(text: str) -> str:
    """A client's text in a message: short, and without control characters."""
    return "".join(one if one.isprintable() else "?" for one in text[:128])


def _where(error: BaseException, place: str) -> str:
    if not place:
        return ""
    file, line = None, None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(place + os.sep):
            file, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(place + os.sep):
        file, line = error.filename, error.lineno
    return f" ({os.path.relpath(file, place)}, line {line})" if file else ""
