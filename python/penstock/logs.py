"""Log records of handlers, with the requests that they compute.

With a `RequestFilter`, a `logging.Handler` has the request of each record, whether the handler or a library that it
calls logs it. `setup` sets this up for a whole program, in text or in JSON.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
from collections.abc import MutableMapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

__all__ = ["JsonFormatter", "RequestFilter", "setup"]

_CONSOLE = "_PENSTOCK_LOG"
"""Environment variable with the level and form of `setup_console`, so that processes of models have them."""

_TEXT = "%(asctime)s %(levelname)s %(name)s [%(model)s/%(version)s %(request_id)s] %(message)s"
_NO_REQUEST = ("-", "-", ("-",))


class RequestFilter(logging.Filter):
    """Adds `request_id`, `model` and `version` of the current request to each record, else `-`.

    In a batch of several requests, `request_id` has their ids, separated by commas. Requests are tracked from the
    creation of the first filter in the process. Existing attributes of a record do not change.

    Example:
        >>> handler = logging.StreamHandler()
        >>> handler.addFilter(RequestFilter())
        >>> handler.setFormatter(logging.Formatter("%(request_id)s %(message)s"))
        >>> logging.getLogger().addHandler(handler)
    """

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        from penstock import _core

        _core.enable_request_contexts()

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the attributes. Returns whether the record passes the filter's name."""
        if not hasattr(record, "request_id"):
            model, version, ids = _current() or _NO_REQUEST
            record.model, record.version, record.request_id = model, version, _joined(ids)
        return super().filter(record)


class JsonFormatter(logging.Formatter):
    """Formats each record as a JSON object in one line.

    `time` (UTC, ISO 8601), `level`, `logger`, `message` and `process`; with a `RequestFilter` also `request_id`,
    `model` and `version`, for what is logged while a request is computed; `error` with the traceback of an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _plain(record.getMessage()),
            "process": record.process,
        }
        for name in ("request_id", "model", "version"):
            if (value := getattr(record, name, "-")) != "-":
                line[name] = value
        if record.exc_info:
            line["error"] = _plain(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _time_of(record)

    def format(self, record: logging.LogRecord) -> str:
        return _plain(super().format(record))


class _ConsoleFormatter(_TextFormatter):
    """Lines like those of the server: time, level, logger, and the request of `ctx.log`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(shown_level)s %(name)s%(shown_request)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.shown_level = record.levelname.lower()
        request = getattr(record, "request_id", None)
        record.shown_request = f" [{request}]" if request not in (None, "-", "") else ""
        return super().format(record)


def setup(
    *, level: int | str = logging.INFO, as_json: bool = False, prints: bool = False, stream: TextIO | None = None
) -> None:
    """Sets up the root logger to write lines with their requests.

    Call it at the top of the module that defines the models, so that it applies in their processes too.

    Args:
        level: The lowest level that is written.
        as_json: Whether lines are JSON objects, as `JsonFormatter` makes them.
        prints: Whether what handlers print becomes lines of the logger `penstock.<model>.print`.
        stream: Where lines go; standard error by default.
    """
    handler = logging.StreamHandler(stream)
    handler.addFilter(RequestFilter())
    handler.setFormatter(JsonFormatter() if as_json else _TextFormatter(_TEXT))
    root = logging.getLogger()
    for known in [one for one in root.handlers if getattr(one, "_penstock", False)]:
        root.removeHandler(known)
    handler._penstock = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level)
    if prints and not isinstance(sys.stdout, _Prints):
        sys.stdout = _Prints(sys.stdout)


def setup_console(level: str, *, as_json: bool = False) -> None:
    """Shows log records of Penstock and of `ctx.log` from `level` on, where the program has not set up logging.

    As soon as the root logger has a handler, its settings apply instead. Processes of models do the same. A second
    call replaces the first.

    Args:
        level: A value of the setting `log_level`. Records of libraries are shown from WARNING on, as without this.
        as_json: Whether lines are JSON objects.
    """
    os.environ[_CONSOLE] = f"{level} {'json' if as_json else 'text'}"
    lowest = _LEVELS.get(level, logging.WARNING)
    handler = _ConsoleHandler()
    handler.setLevel(min(lowest, logging.WARNING))
    handler.setFormatter(JsonFormatter() if as_json else _ConsoleFormatter())
    # Python's own place for this: it is used only where no logger has a handler.
    logging.lastResort = handler
    own = logging.getLogger("penstock")
    if not logging.getLogger().handlers and own.level in (logging.NOTSET, *_levels_set):
        own.setLevel(lowest)
        _levels_set[:] = [lowest]


class _ConsoleHandler(logging.StreamHandler[TextIO] if TYPE_CHECKING else logging.StreamHandler):  # type: ignore[misc]
    """Prints records on standard error, in front of a status line of the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        from penstock._runtime.status_line import erase_shown

        erase_shown()
        super().emit(record)


def release_console() -> None:
    """Leaves the level of Penstock's logger to the program, if its code has set up logging since `setup_console`."""
    own = logging.getLogger("penstock")
    if _levels_set and logging.getLogger().handlers and own.level == _levels_set[-1]:
        own.setLevel(logging.NOTSET)
        _levels_set.clear()


def inherit_console() -> None:
    """Does in the process of a model what `setup_console` did in that of the server."""
    if settings := os.environ.get(_CONSOLE):
        level, _, form = settings.partition(" ")
        setup_console(level, as_json=form == "json")


_LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
"""Levels of `log_level` that show more than Python does by itself."""

_levels_set: list[int] = []
"""The level that `setup_console` set."""


def adapter(model: str, version: str, ids: Sequence[str]) -> logging.LoggerAdapter[logging.Logger]:
    """`Context.log`."""
    extra = {"request_id": _joined(ids), "model": model, "version": version}
    return _Adapter(logging.getLogger(f"penstock.{model}"), extra)


class _Adapter(logging.LoggerAdapter[logging.Logger] if TYPE_CHECKING else logging.LoggerAdapter):  # type: ignore[misc]
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class _Prints(io.TextIOBase):
    """Standard output that sends lines printed by handlers to the log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = threading.local()

    def write(self, text: str) -> int:
        current = _current()
        if current is None:
            return self._stream.write(text)
        *lines, self._begun.text = (getattr(self._begun, "text", "") + text).split("\n")
        for line in lines:
            logging.getLogger(f"penstock.{current[0]}.print").info("%s", line)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


def _current() -> tuple[str, str, Sequence[str]] | None:
    from penstock import _core

    if (current := _core.log_context()) is not None:
        return current
    # Loaded only if a model is async.
    event_loop = sys.modules.get("penstock._runtime.event_loop")
    call = event_loop.computes.get() if event_loop is not None else None
    return call.log_context if call is not None else None


def _joined(ids: Sequence[str]) -> str:
    from penstock import _core

    return ",".join(_core.escape_text(one, cut=True) or "-" for one in ids)


def _time_of(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(text: str) -> str:
    # Line breaks and tabs are kept: they are part of the message, as in a traceback.
    if text.isprintable():
        return text
    from penstock import _core

    parts = ([_core.escape_text(part, cut=False) for part in line.split("\t")] for line in text.split("\n"))
    return "\n".join("\t".join(part) for part in parts)
