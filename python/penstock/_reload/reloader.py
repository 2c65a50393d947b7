"""`Reloader`: reloads the served code on a separate thread, on request or when a file changes."""

from __future__ import annotations

import os
import threading
import time

from penstock._reload.code import Code
from penstock._runtime.console import echo
from penstock._server.server import Server
from penstock.errors import PenstockError

__all__ = ["Reloader"]

_POLL_INTERVAL = 0.25
"""Seconds between two checks of the files."""

_FileStates = dict[str, tuple[int, int]]
"""Modification time in nanoseconds and size of each file."""


class Reloader:
    """Reloads the code of a server.

    Args:
        server: The server of the models in `code`.
        code: The code to reload.
        watches: Whether to reload when a file changes.
    """

    def __init__(self, server: Server, code: Code, *, watches: bool = False) -> None:
        self._server, self._code, self._watches = server, code, watches
        self._requested = threading.Event()
        self._stopped = threading.Event()
        self._failed = False
        self._states: _FileStates = {}
        self._thread = threading.Thread(target=self._run, name="penstock-reload", daemon=True)

    def start(self) -> None:
        """Starts from the present state of the files."""
        self._states = self._file_states(siblings=False)
        self._thread.start()

    def request(self) -> None:
        """Requests a reload. Requests before it begins are merged."""
        self._requested.set()

    def stop(self) -> None:
        """Prevents further reloads. `Server.stop` ends one under way."""
        self._stopped.set()
        self._requested.set()

    def _run(self) -> None:
        while True:
            requested = self._requested.wait(_POLL_INTERVAL if self._watches else None)
            if self._stopped.is_set():
                return
            self._requested.clear()
            if requested or self._has_changed():
                self._reload()

    def _reload(self) -> None:
        began = time.monotonic()
        # Before the files are read: later changes are for the next reload. With siblings, since any may be imported.
        before = self._file_states(siblings=True)
        try:
            names = self._server.reload(self._code.reload, folders=self._code.folders())
        except PenstockError as error:
            report = f"reload failed, what serves goes on: {error}"
        except BaseException as error:
            # Code of the user may raise SystemExit and the like, which must not end this thread.
            report = f"reload failed, what serves goes on: {type(error).__name__}: {error}"
        else:
            report = f"reloaded in {time.monotonic() - began:.2f} s: {', '.join(names) or 'no model'}"
        self._failed = report.startswith("reload failed")
        now = self._file_states(siblings=self._failed)
        # After a failure, a file that appeared meanwhile may be the missing one, so it counts as a change.
        known = before if self._failed else {**now, **before}
        self._states = {path: known[path] for path in now if path in known}
        if not self._stopped.is_set():
            echo(f"penstock: {report}")

    def _has_changed(self) -> bool:
        """True if a file has changed and is complete: in the same state at two checks."""
        now = self._file_states(siblings=self._failed)
        if now == self._states:
            return False
        while (
            not self._requested.wait(_POLL_INTERVAL / 2) and (later := self._file_states(siblings=self._failed)) != now
        ):
            now = later
        return not self._stopped.is_set()

    def _file_states(self, *, siblings: bool) -> _FileStates:
        """States of the code's files, and with `siblings` of others in their folders: a missing module may appear."""
        files = self._code.files()
        if siblings:
            files |= {entry.path for folder in self._code.folders() for entry in _entries(folder)}
        return {path: state for path in files if (state := _state(path))}


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name.endswith(".py")]
    except OSError:
        return []


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
