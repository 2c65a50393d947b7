"""`AppInstance`: a loaded app, with reloading and time limits."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from penstock.compat.inferless._app.app import App
from penstock.compat.inferless._app.input_reader import InputReader
from penstock.compat.inferless._app.modules import AppModules, ProcessModules
from penstock.compat.inferless._app.state import State, StateFile
from penstock.compat.inferless._app.streams import AppThread
from penstock.compat.inferless._app.time_limit import time_limit
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.pydantic_schema import request_object
from penstock.compat.inferless._spec.schema import Schema

__all__ = ["AppInstance"]

T = TypeVar("T")

logger = logging.getLogger("penstock.inferless")

_CHECK_INTERVAL = 0.25
"""Seconds between two checks of the app's files."""


class AppInstance:
    """A loaded app.

    Args:
        settings: The app's options.
        modules: Modules for an app in the server's process; None to make this process the app's.

    Raises:
        Exception: loading the app raised it.
    """

    code: App
    reader: InputReader

    def __init__(self, settings: Settings, modules: AppModules | None = None) -> None:
        self._settings, self._folder = settings, Path(settings.folder)
        # With worker processes, a reload in one of them reloads the app in all.
        self._is_shared = modules is None
        self._modules = ProcessModules(self._folder) if modules is None else modules
        self._file = StateFile(Path(settings.state))
        state = self._file.read()
        self._file.changed()
        self.schema: Schema = state.schema
        self.is_loaded = state.loaded
        self._generation = state.generation
        self._files = _modification_times(self._folder) if settings.reload else {}
        self._checked = time.monotonic()
        # A streaming app has its own thread, and so has one in the server with a time limit, which may have to be
        # interrupted. Other apps run on the calling thread: the main one of a process, or the handler's in the server.
        has_thread = state.schema.streaming or (not self._is_shared and settings.timeout > 0)
        self.thread = AppThread() if has_thread else None
        self._run(self._load)

    def refresh(self) -> None:
        """Reloads the app, between two requests, if it was reloaded elsewhere or a file changed.

        If that fails, the previous code stays.
        """
        if self._is_shared and self._file.changed():
            state = self._file.read()
            self.is_loaded = state.loaded
            if state.generation != self._generation:
                self._generation = state.generation
                self._run(self._replace)
        elif self._settings.reload and time.monotonic() - self._checked > _CHECK_INTERVAL:
            times = _modification_times(self._folder)
            changed, self._files = times != self._files, times
            if changed:
                with contextlib.suppress(Exception):
                    self.reload()
            self._checked = time.monotonic()

    def reload(self) -> None:
        """Reloads the app, here and in its other processes.

        Raises:
            Exception: loading raised it; the previous code stays.
        """
        self._run(self._replace)
        self._generation += 1
        self.is_loaded = True
        self._file.write(State(self._generation, loaded=True, schema=self.schema))

    def unload(self) -> None:
        """Rejects requests until the app is loaded again."""
        self.is_loaded = False
        self._file.write(State(self._generation, loaded=False, schema=self.schema))

    def close(self) -> None:
        """Finalizes the app; exceptions of `finalize` are logged."""
        self._run(lambda: _stop(self.code))
        if self.thread is not None:
            self.thread.close()

    def wrap(self, values: Any) -> Any:
        """Converts inputs to objects of the app's request class, if it declares one.

        Raises:
            InvalidInput: the class rejects the values.
        """
        if self.code.request is None:
            return values
        if isinstance(values, list):
            return [request_object(self.code.request, one) for one in values]
        return request_object(self.code.request, values)

    def compute(self, task: Callable[[], T]) -> T:
        """Runs a call of the app within the time limit.

        Raises:
            Timeout: the call exceeded the limit.
            Exception: the call raised it.
        """
        seconds = self._settings.timeout
        if self.thread is not None:
            return self.thread.run_within(task, seconds)
        if not seconds:
            return task()
        with time_limit(seconds):
            return task()

    def _run(self, task: Callable[[], T]) -> T:
        return task() if self.thread is None else self.thread.run(task)

    def _load(self) -> None:
        code = App(self._folder, self._modules)
        code.start()
        self.code, self.schema = code, code.schema
        self.reader = InputReader(code.schema, strict=self._settings.strict, as_numpy=self._settings.numpy_inputs)

    def _replace(self) -> None:
        previous = self.code
        before = _call_mode(previous)
        self._modules.forget()
        try:
            self._load()
        except BaseException:
            logger.exception("%s: reload failed; the previous code stays", self._settings.name)
            raise
        if _call_mode(self.code) != before:
            logger.warning(
                "%s: changes of streaming, batching or async take effect when the server restarts",
                self._settings.name,
            )
        _stop(previous)
        logger.info("%s: reloaded", self._settings.name)


def _call_mode(code: App) -> tuple[bool, int, float, bool]:
    """Returns the properties that choose the handler, which a reload cannot change."""
    return code.schema.streaming, code.schema.batch_size, code.schema.batch_window, code.is_async


def _stop(code: App) -> None:
    try:
        code.stop()
    except Exception:
        logger.exception("finalize failed")


def _modification_times(folder: Path) -> dict[str, int]:
    """Returns the modification time of each Python, JSON and YAML file, in nanoseconds."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and one != "__pycache__"]
        for name in files:
            if name.endswith((".py", ".json", ".yaml")):
                with contextlib.suppress(OSError):
                    path = os.path.join(root, name)
                    found[path] = os.stat(path).st_mtime_ns
    return found
