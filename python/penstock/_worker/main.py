"""Main program of a child process: one instance of a model, controlled by the server that started it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from typing import Any

from penstock import logs
from penstock._runtime import tracebacks
from penstock._runtime.instance import for_single_instance

__all__ = ["main"]


def main() -> None:
    """Loads the payload from the server, and computes batches until the server stops it."""
    from penstock import _core
    from penstock._runtime import forks, stacks

    forks.watch()
    worker = _core.Worker()
    # The server ends this process: a signal to the process group, such as Ctrl-C, must not cut batches off. The
    # signals are caught, not ignored: programs that the handler starts would inherit that.
    signal.signal(signal.SIGINT, _do_nothing)
    before = signal.signal(signal.SIGTERM, _do_nothing)
    # Processes that the handler forks must end at SIGTERM.
    forks.in_child.add(lambda: signal.signal(signal.SIGTERM, before))
    with contextlib.suppress(Exception):
        # Prints the Python stack at a crash of compiled code.
        faulthandler.enable()
    with contextlib.suppress(Exception):
        stacks.register()
    with contextlib.suppress(Exception):
        # Printed lines are not lost if the process is killed.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [sys.argv[1]]
    # Bytecode identifies a source by its second of modification, and code may be reloaded more often.
    sys.dont_write_bytecode = True
    logs.inherit_console()
    payload = worker.receive_payload()
    if payload is None:
        return
    try:
        definition = _load(payload)
        logs.release_console()
        worker.serve(definition)
    except BaseException as error:
        if not worker.is_ready:
            worker.load_failed(tracebacks.summary(error), tracebacks.user_traceback(error))
        else:
            traceback.print_exception(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _load(payload: bytes) -> Any:
    from penstock._worker.payload import load_payload

    return for_single_instance(load_payload(payload), _limit_torch)


def _limit_torch() -> None:
    """Limits the threads of torch, if it was imported before the environment had the limit."""
    torch: Any = sys.modules.get("torch")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if torch is not None and threads.isdigit():
        with contextlib.suppress(Exception):
            torch.set_num_threads(int(threads))


def _do_nothing(*_: object) -> None:
    pass
