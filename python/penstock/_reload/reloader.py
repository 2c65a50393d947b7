"""Loads the served code anew, on a thread of its own: when told to, or when a file has changed."""

from __future__ import annotations

import os
import sys
import threading
import time

from penstock._reload.code import Code
from penstock._server.server import Server
from penstock.errors import PenstockError

__all__ = ["Reloader"]

_LOOKS_EVERY = 0.25
"""Seconds between two looks at the files."""

_Marks = dict[str, tuple[int, int]]


class Reloader:
    """Loads code anew for a server.

    Args:
        server: It serves the models of `code`.
        code: What to load.
        watches: Whether to look for files that change.
    """

    def __init__(self, server: Server, code: Code, *, watches: bool = False) -> None:
        self._server, self._code, self._watches = server, code, watches
        self._asked = threading.Event()
        self._ends = threading.Event()
        self._failed = False
        self._marks: _Marks = {}
        self._thread = threading.Thread(target=self._run, name="penstock-reload", daemon=True)

    def start(self) -> None:
        """Begins with what is served now."""
        self._marks = self._look(all_around=False)
        self._thread.start()

    def ask(self) -> None:
        """Has the code loaded anew soon. Asked again before that began, it is loaded once."""
        self._asked.set()

    def stop(self) -> None:
        """Loads nothing any more. What is being loaded is left to the server's stop."""
        self._ends.set()
        self._asked.set()

    def _run(self) -> None:
        while True:
            asked = self._asked.wait(_LOOKS_EVERY if self._watches else None)
            if self._ends.is_set():
                return
            self._asked.clear()
            if asked or self._has_changed():
                self._reload()

    def _reload(self) -> None:
        began = time.monotonic()
        # Before the files are read, and whatever may be imported: what changes from now on is for the next time.
        before = self._look(all_around=True)
        try:
            names = self._server.reload(self._code.load_anew, folders=self._code.folders())
        except PenstockError as error:
            told = f"reload failed, what serves goes on: {error}"
        except BaseException as error:
            # This thread must outlive whatever the user's code does.
            told = f"reload failed, what serves goes on: {type(error).__name__}: {error}"
        else:
            told = f"reloaded in {time.monotonic() - began:.2f} s: {', '.join(names) or 'no model'}"
        self._failed = told.startswith("reload failed")
        now = self._look(all_around=self._failed)
        # A file that came meanwhile may be what was missing; else it was imported for the first time.
        known = before if self._failed else {**now, **before}
        self._marks = {path: known[path] for path in now if path in known}
        if not self._ends.is_set():
            _say(told)

    def _has_changed(self) -> bool:
        """Whether a file has changed, and the change is complete: the same at two looks."""
        now = self._look(all_around=self._failed)
        if now == self._marks:
            return False
        while not self._asked.wait(_LOOKS_EVERY / 2) and (later := self._look(all_around=self._failed)) != now:
            now = later
        return not self._ends.is_set()

    def _look(self, *, all_around: bool) -> _Marks:
        """The files of the code, and those beside them: a module that is missing may appear."""
        files = self._code.files()
        if all_around:
            files |= {entry.path for folder in self._code.folders() for entry in _entries(folder)}
        return {path: mark for path in files if (mark := _mark(path))}


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name.endswith(".py")]
    except OSError:
        return []


def _mark(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _say(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)
