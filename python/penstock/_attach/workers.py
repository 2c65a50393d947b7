"""The threads of a process that compute for models that it has attached."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._model.checks import check_batching
from penstock._model.options import check_processes, is_of_another
from penstock._runtime import tracebacks
from penstock._runtime.instance import alone
from penstock._spec.instances import Processes
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["Started", "Workers", "attachable"]


def attachable(models: Iterable[Any]) -> list[Definition]:
    """The definitions of models, as `Server` takes them, that can be computed in another process than the server's.

    Raises:
        StartupError: there is none, or one cannot; the message says why.
    """
    from penstock._model.resolve import definitions_of

    # What explains a model would have to be asked here, and is not.
    found = [replace(one, explainer=None) for one in definitions_of(models) if not is_of_another(one.name)]
    for one in found:
        where = f"model {one.name!r}"
        if one.opaque or one.calls:
            raise SignatureError(f"{where} calls other models, which only a model of the server's own process can")
        if one.processes is not None:
            raise SignatureError(f"{where}: an attached model has threads; attach it from several processes instead")
        check_processes(Processes(1), one.batching, None, where)
        check_batching(one.batching, (one.inputs, one.outputs), where, streams=one.streams, processes=True)
    return found


class Started:
    """Threads that were started together."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def failure(self) -> BaseException | None:
        """What was raised first while a handler was built."""
        return self.failures[0] if self.failures else None


class Workers:
    """All of them."""

    def __init__(self) -> None:
        self._threads: list[tuple[str, threading.Thread]] = []

    def start(
        self,
        instances: Sequence[tuple[Definition, _core.Channel]],
        failed: Callable[[str, BaseException | None], object],
    ) -> Started:
        """Starts a thread for each instance, which builds its handler there.

        Args:
            instances: What each computes, and where it gets its batches.
            failed: Told of a model of which an instance has ended that should not have, and of what it raised, if so.
        """
        started = Started()
        for definition, channel in instances:
            thread = threading.Thread(
                target=_work,
                args=(definition, channel, started, failed),
                name=f"penstock-{definition.name}",
                daemon=True,
            )
            self._threads.append((f"{definition.name} (version {definition.version})", thread))
            thread.start()
        return started

    def join(self, timeout: float | None) -> bool:
        """Waits until all have ended. Whether they have."""
        until = None if timeout is None else time.monotonic() + timeout
        for _, thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not self.stuck()

    def stuck(self) -> list[str]:
        """The models of which one has not."""
        return list(dict.fromkeys(name for name, thread in self._threads if thread.is_alive()))


def _work(
    definition: Definition,
    channel: _core.Channel,
    started: Started,
    failed: Callable[[str, BaseException | None], object],
) -> None:
    from penstock import _core
    from penstock._runtime import forks

    forks.watch()
    worker = _core.Worker.attached(channel)
    try:
        if not worker.serve(alone(definition)):
            failed(definition.name, None)
    except BaseException as error:
        if worker.is_ready:
            failed(definition.name, error)
            return
        started.failures.append(error)
        # A server that is gone, or does not want it any more, does not hear of it.
        with contextlib.suppress(OSError):
            worker.failed(tracebacks.summary(error), tracebacks.user_traceback(error))
