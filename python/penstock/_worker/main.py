"""A process that is an instance of a model: started by a server, fed by it, and ended with it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from typing import Any

from penstock._runtime import tracebacks
from penstock._runtime.instance import for_single_instance

__all__ = ["main"]


def main() -> None:
    """Loads what the server says, and computes until it says stop."""
    from penstock import _core
    from penstock._runtime import forks

    forks.watch()
    worker = _core.Worker()
    # The server decides when this ends: a signal to the whole group, Ctrl-C say, must not cut batches off. Not
    # ignored but caught, so that what the handler starts gets its signals.
    signal.signal(signal.SIGINT, _do_nothing)
    before = signal.signal(signal.SIGTERM, _do_nothing)
    # What the handler forks must end when it is told to.
    forks.in_child.add(lambda: signal.signal(signal.SIGTERM, before))
    with contextlib.suppress(Exception):
        # A crash that Python does not see says at least where it happened.
        faulthandler.enable()
    with contextlib.suppress(Exception):
        # A process that is killed loses no line that was printed.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [sys.argv[1]]
    # What is cached is known by the second of its change, and code may be loaded anew more often.
    sys.dont_write_bytecode = True
    payload = worker.receive_payload()
    if payload is None:
        return
    try:
        worker.serve(_loaded(payload))
    except BaseException as error:
        if not worker.is_ready:
            worker.load_failed(tracebacks.summary(error), tracebacks.user_traceback(error))
        else:
            traceback.print_exception(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _loaded(payload: bytes) -> Any:
    from penstock._worker.payload import received

    return for_single_instance(received(payload), _limit_torch)


def _limit_torch() -> None:
    """Torch reads the environment when it is imported, which may have been before the limit was there."""
    torch: Any = sys.modules.get("torch")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if torch is not None and threads.isdigit():
        with contextlib.suppress(Exception):
            torch.set_num_threads(int(threads))


def _do_nothing(*_: object) -> None:
    pass
