"""Tracebacks of user code: own frames removed, one-line summaries."""

from __future__ import annotations

import contextlib
import os
import traceback

__all__ = ["is_ours", "summary", "user_traceback"]

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
