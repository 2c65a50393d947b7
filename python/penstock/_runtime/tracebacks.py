"""Tracebacks of user code: own frames removed, one-line summaries."""

from __future__ import annotations

import contextlib
import os
import traceback
from types import TracebackType

__all__ = ["for_clients", "for_operators", "is_ours", "send_to_clients", "summary", "user_traceback"]

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_traceback(error: BaseException) -> str:
    """The traceback of an error, without Penstock's own frames before the user's code."""
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))


def summary(error: BaseException) -> str:
    """Type and message of an error, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_ours(filename: str) -> bool:
    """True if a frame's file is part of Penstock or of the import system."""
    return filename.startswith((_OWN, "<frozen importlib", "<frozen runpy")) or filename == contextlib.__file__


def send_to_clients() -> None:
    """Lets clients get the tracebacks of handlers, from this process and those that it starts. For development only."""
    os.environ[_FOR_CLIENTS] = "1"


def for_operators(error: BaseException, trace: TracebackType | None) -> str:
    """The traceback of a handler's exception, for the page at /live. The exception keeps its own."""
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def for_clients(model: str, error: BaseException, trace: TracebackType | None) -> str | None:
    """The message with a traceback that clients of a failed handler get; None unless `send_to_clients` was called."""
    if _FOR_CLIENTS not in os.environ:
        return None
    head = f"model '{model}' failed: {summary(error)}"
    lines = user_traceback(error.with_traceback(trace)).rstrip().splitlines()
    # The last frames say most.
    while len(lines) > 2 and len("\n".join(lines).encode()) > _MAX_TRACEBACK:
        del lines[1]
    return "\n".join([head, *lines])


_FOR_CLIENTS = "_PENSTOCK_TRACEBACKS"
"""Environment variable, so that processes of models know."""

_MAX_TRACEBACK = 3500
"""Most bytes of a traceback for clients. The core takes messages of 4096 bytes."""
