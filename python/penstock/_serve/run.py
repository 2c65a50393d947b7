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
from penstock._serve.settings_reload import reload_settings
from penstock._serve.signals import LoadSignals, SignalledError
from penstock._serve.systemd import Notifier
from penstock._serve.upgrade import Upgradable, Upgrades
from penstock._server.open_files import raised_limit
from penstock._server.server import Server
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock._reload.reloader import Reloader
    from penstock._serve.successor import Successor

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
        upgradable: Lets SIGUSR2 replace the process.
    """

    reloader: Reloader | None = None
    greetings: banner.Greetings | None = None
    started: Callable[[Server], object] | None = None
    reports_load: bool = False
    upgradable: Upgradable | None = None


class _Signals(LoadSignals):
    """Signals of a server in the foreground. Counted, not raised, once it runs: a raise could strike anywhere.

    Args:
        drain_timeout: Seconds that requests have to finish after the first signal.
        reloads: Whether SIGHUP is caught, and requests a reload.
        upgrades: Whether SIGUSR2 is caught, and requests an upgrade.
    """

    def __init__(self, drain_timeout: float, *, reloads: bool, upgrades: bool) -> None:
        also = [signal.SIGHUP] * reloads + [signal.SIGUSR2] * upgrades
        super().__init__([signal.SIGINT, signal.SIGTERM], also=also, start_timeout=drain_timeout)
        self._had_terminal = _has_terminal()
        self.reloads = self.upgrades = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        # A terminal that closes sends SIGHUP too; that ends the server.
        if number == signal.SIGHUP and not (self._had_terminal and not _has_terminal()):
            self.reloads += 1
            return
        if number == signal.SIGUSR2:
            self.upgrades += 1
            return
        super().handle(number, frame)


def run(server: Server, models: list[Any], foreground: Foreground | None = None) -> list[str]:
    """Starts the server, prints its models, and blocks until it has stopped.

    The first SIGINT or SIGTERM drains, a second one stops at once. A signal while models load ends the start. If
    handlers hold the GIL for longer, the process ends without them, with the exit status 0, or 3 if requests were
    cut off. With a reloader, SIGHUP reloads the settings and the code. SIGUSR2 replaces the process, if it can be
    upgraded. The soft limit of open files is raised for `max_connections`.

    Args:
        server: The server.
        models: The server's models. The list is emptied, so that replaced models are not retained here.
        foreground: What a command adds.

    Returns:
        The names of the models that were cut off; empty when all requests finished.
    """
    added = foreground or Foreground()
    reloader, config, upgradable = added.reloader, server.config, added.upgradable
    successor = None if upgradable is None else upgradable.successor
    signals = _Signals(config.drain_timeout, reloads=reloader is not None, upgrades=upgradable is not None)
    # systemd listens to the old process until the new one has taken over.
    notifier = _notifier() if successor is None else Notifier({})
    marked = identity.marked() if reloader is not None else nullcontext()
    held = pid_file.held(config.pid_file, take=successor is None)
    with signals.caught(), marked as mark, held as own_file, raised_limit(config.max_connections):
        try:
            signals.interrupt = True
            with progress.shown("the models") as shown, notifier.more_time("loading the models"):
                _start(server, successor, own_file)
            signals.interrupt = False
            signals.set_target(server)
        except SignalledError:
            signals.interrupt = False
            return server.stop(0.0)
        logs.release_console()
        if successor is not None:
            successor.report_serving()
            notifier = _notifier()
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
        upgrades = None if upgradable is None else Upgrades(server, upgradable, mark, own_file)
        try:
            if _Serving(server, signals, notifier, reloader, upgrades).has_stopped():
                return server.stop()
        finally:
            if reloader is not None:
                reloader.stop()
            if upgrades is not None:
                upgrades.cancel()
        with notifier.more_time("waits for the requests that run"):
            notifier.stopping("waits for the requests that run")
            return _drain(server, signals, delayed=upgrades is None or upgrades.replacement is None)


@dataclass(frozen=True, slots=True)
class _Serving:
    """A server that runs, and what acts on it."""

    server: Server
    signals: _Signals
    notifier: Notifier
    reloader: Reloader | None
    upgrades: Upgrades | None

    def has_stopped(self) -> bool:
        """Waits for a signal or an upgrade, and returns False, or until the server has stopped by itself."""
        while self.signals.count == 0:
            if self.server.wait(_POLL_INTERVAL):
                return True
            if self.signals.reloads and self.reloader is not None:
                self.signals.reloads = 0
                self.notifier.reloading()
                self.server.reload_files()
                reload_settings(self.server)
                # With the `drain_timeout` that is in force now.
                self.signals.set_target(self.server)
                self.reloader.request(lambda: self.notifier.ready(f"serves {_counted(self.server)}"))
            if self.upgrades is not None and self._is_replaced(self.upgrades):
                return False
        return False

    def _is_replaced(self, upgrades: Upgrades) -> bool:
        if self.signals.upgrades:
            self.signals.upgrades = 0
            upgrades.request()
        process = upgrades.poll()
        if process is None:
            return False
        self.notifier.replaced(process, f"serves {_counted(self.server)}")
        upgrades.finish()
        _leave(self.server, process, self.signals)
        return True


def _start(server: Server, successor: Successor | None, own_file: pid_file.PidFile) -> None:
    """Starts the server: with the sockets of another one, and in its place, if it is its successor."""
    if successor is not None:
        timeout = server.config.upgrade_timeout
        server._handed_over = successor.sockets
        server._before_ready = lambda: successor.take_over(own_file.take, timeout)
    server.start()


def _leave(server: Server, process: int, signals: _Signals) -> None:
    """Leaves the sockets to another process, and waits until clients have left their connections to this one."""
    assert server._core is not None
    seconds = server.config.drain_timeout
    echo(f"penstock: upgrade: process {process} serves; connections to process {os.getpid()} have {seconds:g} s to end")
    server._core.hand_over()
    until = time.monotonic() + seconds
    while not (signals.count or server._core.is_deserted() or time.monotonic() >= until):
        time.sleep(_POLL_INTERVAL)


def _notifier() -> Notifier:
    try:
        return Notifier(os.environ)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _counted(server: Server) -> str:
    count = len({definition.name for definition in server.definitions if not definition.name.startswith(":")})
    return f"{count} model{'' if count == 1 else 's'}"


def _drain(server: Server, signals: _Signals, *, delayed: bool) -> list[str]:
    config = server.config
    seconds = config.drain_delay if delayed else 0
    delay = f"not ready, and serves for {seconds:g} s more; then " if seconds else ""
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
