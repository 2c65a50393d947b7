"""A process that is an instance of a model: started by a server, fed by it, and ended with it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._definition import nothing_to_close

if TYPE_CHECKING:
    from penstock._definition import Definition

__all__ = ["alone", "main", "summary", "traceback_of"]


def main() -> None:
    """Loads what the server says, and computes until it says stop."""
    from penstock import _core, _forks

    _forks.watch()
    worker = _core.Worker()
    # The server decides when this ends: a signal to the whole group, Ctrl-C say, must not cut batches off. Not
    # ignored but caught, so that what the handler starts gets its signals.
    signal.signal(signal.SIGINT, _do_nothing)
    before = signal.signal(signal.SIGTERM, _do_nothing)
    # What the handler forks must end when it is told to.
    _forks.in_child.add(lambda: signal.signal(signal.SIGTERM, before))
    with contextlib.suppress(Exception):
        # A crash that Python does not see says at least where it happened.
        faulthandler.enable()
    with contextlib.suppress(Exception):
        # A process that is killed loses no line that was printed.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [sys.argv[1]]
    # What is cached is known by the second of its change, and code may be loaded anew more often.
    sys.dont_write_bytecode = True
    payload = worker.payload()
    if payload is None:
        return
    try:
        worker.serve(_loaded(payload))
    except BaseException as error:
        if not worker.is_ready:
            worker.failed(summary(error), traceback_of(error))
        else:
            traceback.print_exception(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _loaded(payload: bytes) -> Any:
    from penstock._spawning import received

    return alone(received(payload), _limit_torch)


def alone(definition: Definition, built: Callable[[], object] = nothing_to_close) -> Definition:
    """A definition as one instance computes it that knows of no others: one call at a time.

    Args:
        definition: What the model is.
        built: Called when its handler is there.
    """
    factory = definition.factory

    def build() -> Any:
        if definition.concurrency is None:
            handler = factory()
        else:
            from penstock._blocking import blocking

            handler = blocking(factory, streams=definition.streams)
        built()
        return handler

    return replace(definition, factory=build, processes=None, concurrency=None)


def _limit_torch() -> None:
    """Torch reads the environment when it is imported, which may have been before the limit was there."""
    torch: Any = sys.modules.get("torch")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if torch is not None and threads.isdigit():
        with contextlib.suppress(Exception):
            torch.set_num_threads(int(threads))


def _do_nothing(*_: object) -> None:
    pass


def summary(error: BaseException) -> str:
    """One line of why something could not be loaded."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """Where it was raised, in the user's code."""
    from penstock._load import user_traceback

    return user_traceback(error)
