"""Why a model could not be loaded: what clients are told, and what the log is.

Clients are told the class of an exception and where in the model's own folder it came from. Its text may
hold anything, a path for one, and goes to the log only.
"""

from __future__ import annotations

import logging
import os
import traceback

from penstock import _load
from penstock.errors import HandlerError, InvalidInput, LoadError, PenstockError

__all__ = ["of", "printable"]

_log = logging.getLogger("penstock.repository")


def of(error: BaseException, name: str, version: str, place: str) -> PenstockError:
    """The answer to who asked for the load, whose text is public; the log gets the rest."""
    if isinstance(error, InvalidInput):
        return error
    # The compiled part wraps what a handler raised while it was built.
    cause = error.__cause__ if isinstance(error, LoadError) and error.__cause__ is not None else error
    _log.error("model '%s' version '%s' could not be loaded\n%s", name, version, _load.user_traceback(cause).rstrip())
    own = isinstance(cause, PenstockError) and not (place and place in str(cause))
    what = " ".join(str(cause).split()) if own else type(cause).__name__
    return HandlerError(f"model '{name}' version '{version}' could not be loaded: {what}{_where(cause, place)}")


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
