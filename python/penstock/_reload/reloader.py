"""`Reloader`: reloads the served code on a separate thread, on request or when a file changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from penstock._reload.code import Code
from penstock._reload.file_watch import POLL_INTERVAL, FileWatch
from penstock._runtime import progress
from penstock._runtime.console import echo
from penstock._server.server import Server
from penstock.errors import PenstockError

__all__ = ["Reloader", "names_of"]


class Reloader:
    """Reloads the code of a server.

    Args:
        server: The server of the models in `code`.
        code: The code to reload.
        watches: Whether to reload when a file changes.
    """

    def __init__(self, server: Server, code: Code, *, watches: bool = False) -> None:
        self._server, self._code, self._watches = server, code, watches
        self._files = FileWatch(code)
        self._requested = threading.Event()
        self._stopped = threading.Event()
        self._finished: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._run, name="penstock-reload", daemon=True)

    def start(self) -> None:
        """Starts from the present state of the files."""
        self._files.start()
        if self._watches:
            count = self._files.count
            echo(f"penstock: watching {count} file{'s' if count != 1 else ''}, reloads when one changes")
        self._thread.start()

    def request(self, finished: Callable[[], object] | None = None) -> None:
        """Requests a reload. Requests before it begins are merged.

        Args:
            finished: Called on the reloader's thread after the reload, also after one that failed.
        """
        if finished is not None:
            self._finished.append(finished)
        self._requested.set()

    def stop(self) -> None:
        """Prevents further reloads. `Server.stop` ends one under way."""
        self._stopped.set()
        self._requested.set()

    def _run(self) -> None:
        while True:
            requested = self._requested.wait(POLL_INTERVAL if self._watches else None)
            if self._stopped.is_set():
                return
            self._requested.clear()
            changed = [] if requested else self._files.changed(self._requested)
            if self._stopped.is_set():
                return
            if changed:
                echo(f"penstock: {names_of(changed)} changed, reloading")
            if requested or changed:
                self._reload()

    def _reload(self) -> None:
        finished, self._finished = self._finished, []
        # Before the files are read: later changes are for the next reload.
        before = self._files.begin()
        with progress.shown(", ".join(self._code.targets) or "the repository") as shown:
            try:
                names = self._server.reload(self._code.reload, folders=self._code.folders())
            except PenstockError as error:
                report, failed = f"reload failed, what serves goes on: {error}", True
            except BaseException as error:
                # Code of the user may raise SystemExit and the like, which must not end this thread.
                report, failed = f"reload failed, what serves goes on: {type(error).__name__}: {error}", True
            else:
                report, failed = f"reloaded in {shown.seconds:.2f} s: {', '.join(names) or 'no model'}", False
        self._files.finish(before, failed=failed)
        if not self._stopped.is_set():
            echo(f"penstock: {report}")
            for call in finished:
                call()


def names_of(files: Sequence[str]) -> str:
    """Names of changed files for a line."""
    return progress.several([os.path.basename(path) for path in files])
