"""`Kept`: an app that is loaded, and loaded anew when that is wanted."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from penstock.compat.inferless._app.app import App
from penstock.compat.inferless._app.input_reader import Reader
from penstock.compat.inferless._app.modules import Modules, OfProcess
from penstock.compat.inferless._app.state import State, StateFile
from penstock.compat.inferless._app.streams import AppThread
from penstock.compat.inferless._app.time_limit import limited
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.schema import Schema

__all__ = ["Kept"]

T = TypeVar("T")

logger = logging.getLogger("penstock.inferless")

_LOOK_EVERY = 0.25
"""Seconds between two looks at the app's files."""


class Kept:
    """An app in this process.

    Args:
        settings: How it is served.
        modules: Where its modules come from; None where this process is to become the app's own.

    Raises:
        Exception: whatever loading it raises.
    """

    app: App
    reader: Reader

    def __init__(self, settings: Settings, modules: Modules | None = None) -> None:
        self._settings, self._folder = settings, Path(settings.folder)
        # What one process of several loads anew, the others do too.
        self._is_shared = modules is None
        self._modules = OfProcess(self._folder) if modules is None else modules
        self._file = StateFile(Path(settings.state))
        state = self._file.read()
        self._file.changed()
        self.schema: Schema = state.schema
        self.is_loaded = state.loaded
        self._generation = state.generation
        self._files = _stamps(self._folder) if settings.reload else {}
        self._looked = time.monotonic()
        # A streaming app has a thread for itself, and in the server one that may have to be interrupted. Any other has
        # the thread that calls it: the process's main one, or a handler's in the server.
        has_thread = state.schema.streaming or (not self._is_shared and settings.timeout > 0)
        self.thread = AppThread() if has_thread else None
        self._do(self._load)

    def refresh(self) -> None:
        """Loads the app anew if that is wanted, between two requests. If it fails, what there was goes on."""
        if self._is_shared and self._file.changed():
            state = self._file.read()
            self.is_loaded = state.loaded
            if state.generation != self._generation:
                self._generation = state.generation
                self._again()
        elif self._settings.reload and time.monotonic() - self._looked > _LOOK_EVERY:
            found = _stamps(self._folder)
            changed, self._files = found != self._files, found
            if changed:
                with contextlib.suppress(Exception):
                    self.reload()
            self._looked = time.monotonic()

    def reload(self) -> None:
        """Loads the app anew, here and in its other processes.

        Raises:
            Exception: whatever loading it raises; what there was goes on.
        """
        self._again()
        self._generation += 1
        self.is_loaded = True
        self._file.write(State(self._generation, loaded=True, schema=self.schema))

    def unload(self) -> None:
        """Refuses requests until it is loaded again."""
        self.is_loaded = False
        self._file.write(State(self._generation, loaded=False, schema=self.schema))

    def close(self) -> None:
        """Has the app finalize, and lets nothing of that fail."""
        self._do(lambda: _stop(self.app))
        if self.thread is not None:
            self.thread.close()

    def wrapped(self, values: Any) -> Any:
        """Inputs as the app wants them: its own class's objects, or dicts.

        Raises:
            InvalidInput: its own class does not take them.
        """
        if self.app.request is None:
            return values
        from penstock.compat.inferless._app.request_object import request_object

        if isinstance(values, list):
            return [request_object(self.app.request, one) for one in values]
        return request_object(self.app.request, values)

    def compute(self, task: Callable[[], T]) -> T:
        """What a call of the app gives, within the time that it has.

        Raises:
            Timeout: it took too long.
            Exception: whatever it raises.
        """
        seconds = self._settings.timeout
        if self.thread is not None:
            return self.thread.within(task, seconds)
        if not seconds:
            return task()
        with limited(seconds):
            return task()

    def _do(self, task: Callable[[], T]) -> T:
        return task() if self.thread is None else self.thread.do(task)

    def _load(self) -> None:
        app = App(self._folder, self._modules)
        app.start()
        self.app, self.schema = app, app.schema
        self.reader = Reader(app.schema, strict=self._settings.strict, as_numpy=self._settings.numpy_inputs)

    def _again(self) -> None:
        self._do(self._replace)

    def _replace(self) -> None:
        before = self.app
        called = (before.schema.streaming, before.schema.batch_size, before.schema.batch_window, before.is_async)
        self._modules.forget()
        try:
            self._load()
        except BaseException:
            logger.exception("%s: it cannot be loaded anew, so what there was goes on", self._settings.name)
            raise
        after = self.app
        if (after.schema.streaming, after.schema.batch_size, after.schema.batch_window, after.is_async) != called:
            logger.warning(
                "%s: streaming, batching and async have changed, which counts from the server's next start on",
                self._settings.name,
            )
        _stop(before)
        logger.info("%s: loaded anew", self._settings.name)


def _stop(app: App) -> None:
    try:
        app.stop()
    except Exception:
        logger.exception("finalize failed")


def _stamps(folder: Path) -> dict[str, int]:
    """When each Python file of the app last changed."""
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and one != "__pycache__"]
        for name in files:
            if name.endswith((".py", ".json", ".yaml")):
                with contextlib.suppress(OSError):
                    path = os.path.join(root, name)
                    found[path] = os.stat(path).st_mtime_ns
    return found
