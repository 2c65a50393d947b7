"""Runs a server in the foreground: prints the models, waits for a signal, drains."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock import logs
from penstock._reload import identity, pid_file
from penstock._runtime import progress
from penstock._runtime.console import echo
from penstock._serve import banner
from penstock._serve.signals import LoadSignals, SignalledError
from penstock._serve.systemd import Notifier
from penstock._server.open_files import raised_limit
from penstock._server.server import Server
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock._reload.reloader import Reloader

_POLL_INTERVAL = 0.1
"""Seconds between two checks for a signal."""

_AT_ONCE_GRACE = 1.0
"""Seconds that the compiled extension has to end in an immediate stop."""

_UNFINISHED = "requests that have not finished"


@dataclass(frozen=True, slots=True)
class Foreground:
    """Additions of a command to a server in the foreground.

    Attributes:
        reloader: Reloads the models, at SIGHUP too.
        greetings: Returns example requests for the banner; if it returns none, the banner has its own.
        started: Called with the server once it has started.
        reports_load: Whether the seconds of the start are printed.
    """

    reloader: Reloader | None = None
    greetings: banner.Greetings | None = None
    started: Callable[[Server], object] | None = None
    reports_load: bool = False


class _Signals(LoadSignals):
    """Signals of a server in the foreground. Counted, not raised, once it runs: a raise could strike anywhere.

    Args:
        drain_timeout: Seconds that requests have to finish after the first signal.
        reloads: Whether SIGHUP is caught, and requests a reload.
    """

    def __init__(self, drain_timeout: float, *, reloads: bool) -> None:
        also = [signal.SIGHUP] if reloads else []
        super().__init__([signal.SIGINT, signal.SIGTERM], also=also, start_timeout=drain_timeout)
        self._had_terminal = _has_terminal()
        self.reloads = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        # A terminal that closes sends SIGHUP too; that ends the server.
        if number == signal.SIGHUP and not (self._had_terminal and not _has_terminal()):
            self.reloads += 1
            return
        super().handle(number, frame)


def run(server: Server, models: list[Any], foreground: Foreground | None = None) -> list[str]:
    """Starts the server, prints its models, and blocks until it has stopped.

    The first SIGINT or SIGTERM drains, a second one stops at once. A signal while models load ends the start. If
    handlers hold the GIL for longer, the process ends without them, with the exit status 0, or 3 if requests were
    cut off. With a reloader, SIGHUP reloads the code. The soft limit of open files is raised for `max_connections`.

    Args:
        server: The server.
        models: The server's models. The list is emptied, so that replaced models are not retained here.
        foreground: What a command adds.

    Returns:
        The names of the models that were cut off; empty when all requests finished.
    """
    added = foreground or Foreground()
    reloader, config = added.reloader, server.config
    signals = _Signals(config.drain_timeout, reloads=reloader is not None)
    notifier = _notifier()
    marked = identity.marked() if reloader is not None else nullcontext()
    with signals.caught(), marked, pid_file.held(config.pid_file), raised_limit(config.max_connections):
        try:
            signals.interrupt = True
            with progress.shown("the models") as shown, notifier.more_time("loading the models"):
                server.start()
            signals.interrupt = False
            signals.set_target(server)
        except SignalledError:
            signals.interrupt = False
            return server.stop(0.0)
        logs.release_console()
        if added.reports_load:
            echo(f"penstock: loaded in {shown.seconds:.2f} s")
        if reloader is not None:
            # Before the banner, after which the files may change.
            reloader.start()
        echo(banner.describe(server, models, added.greetings), sys.stdout)
        models.clear()
        notifier.ready(f"serves {_counted(server)}")
        if added.started is not None:
            added.started(server)
        try:
            while signals.count == 0:
                if server.wait(_POLL_INTERVAL):
                    return server.stop()
                if signals.reloads and reloader is not None:
                    signals.reloads = 0
                    notifier.reloading()
                    server.reload_files()
                    reloader.request(lambda: notifier.ready(f"serves {_counted(server)}"))
        finally:
            if reloader is not None:
                reloader.stop()
        with notifier.more_time("waits for the requests that run"):
            notifier.stopping("waits for the requests that run")
            return _drain(server, signals)


def _notifier() -> Notifier:
    try:
        return Notifier(os.environ)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _counted(server: Server) -> str:
    count = len({definition.name for definition in server.definitions if not definition.name.startswith(":")})
    return f"{count} model{'' if count == 1 else 's'}"


def _drain(server: Server, signals: _Signals) -> list[str]:
    config = server.config
    delay = f"not ready, and serves for {config.drain_delay:g} s more; then " if config.drain_delay else ""
    echo(f"penstock: stopping: {delay}requests have {config.drain_timeout:g} s to finish; signal again to stop at once")
    stop = _Stop(server, None)
    while not stop.has_ended(_POLL_INTERVAL):
        if signals.count > 1:
            echo("penstock: stopping at once")
            return _stop_at_once(server, stop)
    return stop.cut()


def _stop_at_once(server: Server, stop: _Stop) -> list[str]:
    until = time.monotonic() + _AT_ONCE_GRACE
    hastened = _Stop(server, 0.0)
    # The second stop may return early; the server has stopped when the first one has.
    for pending in (hastened, stop):
        if not pending.has_ended(max(0.0, until - time.monotonic())):
            return [_UNFINISHED]
    return [*stop.cut(), *hastened.cut()]


class _Stop:
    """A stop on a separate thread, while the main thread waits for a second signal."""

    def __init__(self, server: Server, timeout: float | None) -> None:
        self._cut: list[str] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(server, timeout), name="penstock-stop", daemon=True)
        self._thread.start()

    def has_ended(self, patience: float) -> bool:
        """True if the stop ends within `patience` seconds."""
        self._thread.join(patience)
        return not self._thread.is_alive()

    def cut(self) -> list[str]:
        """The models that were cut off, once the stop has ended."""
        if self._failure is not None:
            raise self._failure
        return self._cut

    def _run(self, server: Server, timeout: float | None) -> None:
        try:
            self._cut = server.stop(timeout)
        except BaseException as error:
            self._failure = error


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
