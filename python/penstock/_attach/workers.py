"""Worker threads of a process that has attached models: one for each instance."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._model.checks import check_batching
from penstock._model.iterative import check_iterative
from penstock._model.options import belongs_to_model, check_processes
from penstock._runtime import tracebacks
from penstock._runtime.instance import for_single_instance
from penstock._spec.instances import Processes
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["Group", "Workers", "attachable"]


def attachable(models: Iterable[Any]) -> list[Definition]:
    """The definitions of models that can run in another process than the server's.

    Raises:
        StartupError: there are no models, or one of them cannot be attached; the message gives the reason.
    """
    from penstock._model.resolve import definitions_of

    # Explainers share the model's instance, which the server cannot reach here.
    definitions = [
        replace(definition, explainer=None)
        for definition in definitions_of(models)
        if not belongs_to_model(definition.name)
    ]
    for definition in definitions:
        where = f"model {definition.name!r}"
        if definition.opaque or definition.calls:
            raise SignatureError(f"{where} calls other models, which only a model of the server's own process can")
        if definition.processes is not None:
            raise SignatureError(f"{where}: an attached model has threads; attach it from several processes instead")
        check_iterative(definition.iterative, [("an attached model", True)], where)
        check_processes(Processes(1), definition.batching, None, where)
        tensors = (definition.inputs, definition.outputs)
        check_batching(definition.batching, tensors, where, streams=definition.streams, processes=True)
    return definitions


class Group:
    """Worker threads that were started together."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def failure(self) -> BaseException | None:
        """The first exception of building a handler."""
        return self.failures[0] if self.failures else None


class Workers:
    """All worker threads of the process."""

    def __init__(self) -> None:
        self._threads: list[tuple[str, threading.Thread]] = []

    def start(
        self,
        instances: Sequence[tuple[Definition, _core.InstanceChannel]],
        failed: Callable[[str, BaseException | None], object],
    ) -> Group:
        """Starts a thread for each instance, which builds its handler there.

        Args:
            instances: The definition of each instance, and the channel that brings its batches.
            failed: Called with the model's name and the exception, if any, when an instance ends unexpectedly.
        """
        group = Group()
        for definition, channel in instances:
            thread = threading.Thread(
                target=_work,
                args=(definition, channel, group, failed),
                name=f"penstock-{definition.name}",
                daemon=True,
            )
            self._threads.append((f"{definition.name} (version {definition.version})", thread))
            thread.start()
        return group

    def join(self, timeout: float | None) -> bool:
        """Waits up to `timeout` seconds until all threads have ended. Returns whether they have."""
        until = None if timeout is None else time.monotonic() + timeout
        for _, thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not self.stuck()

    def stuck(self) -> list[str]:
        """The models of threads that have not ended."""
        return list(dict.fromkeys(name for name, thread in self._threads if thread.is_alive()))


def _work(
    definition: Definition,
    channel: _core.InstanceChannel,
    group: Group,
    failed: Callable[[str, BaseException | None], object],
) -> None:
    from penstock import _core
    from penstock._runtime import forks

    forks.watch()
    worker = _core.Worker.attach(channel)
    try:
        if not worker.serve(for_single_instance(definition)):
            failed(definition.name, None)
    except BaseException as error:
        if worker.is_ready:
            failed(definition.name, error)
            return
        group.failures.append(error)
        # The server may be gone, or may have closed the channel.
        with contextlib.suppress(OSError):
            worker.load_failed(tracebacks.summary(error), tracebacks.user_traceback(error))
