"""The log's line of each request: how long its stages took."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.compat.kserve._metrics.deferred import Later
from penstock.compat.kserve.logging import KSERVE_TRACE_LOGGER_FORMAT, trace_logger

if TYPE_CHECKING:
    from penstock.compat.kserve._model.stages import Times

__all__ = ["is_wanted", "line_of", "write", "write_now"]


def is_wanted() -> bool:
    """Whether anybody would read the lines."""
    return trace_logger.isEnabledFor(logging.INFO)


def line_of(times: Times, headers: Mapping[str, str] | None) -> str:
    """The line of a request."""
    request_id = headers.get("x-request-id", "N.A.") if headers else "N.A."
    return (
        f"requestId: {request_id}, preprocess_ms: {_milliseconds(times.preprocess)}, "
        f"explain_ms: {_milliseconds(times.explain)}, predict_ms: {_milliseconds(times.predict)}, "
        f"postprocess_ms: {_milliseconds(times.postprocess)}"
    )


def write(lines: Sequence[str]) -> None:
    """Writes the lines of requests that were answered together.

    Several are written a moment later, with those of others: writing lets other threads in, and the answers would have
    to wait for the whole turn of the next one.
    """
    if len(lines) == 1 and not _later.waits:
        write_now([(time.time(), lines)])
    else:
        _later.add((time.time(), lines))


Batch = tuple[float, Sequence[str]]
"""Lines, and the time that they tell, in seconds of the Unix clock."""


def write_now(batches: Iterable[Batch]) -> None:
    """Writes lines. As KServe sets up logging, each is formatted alike and goes to one stream: then in one piece."""
    handler = _plain_handler()
    if handler is None or handler.formatter is None:
        for created, lines in batches:
            for line in lines:
                trace_logger.handle(_record(line, created))
        return
    parts: list[str] = []
    for created, lines in batches:
        before, _, after = handler.formatter.format(_record(_MARK, created)).partition(_MARK)
        end = after + handler.terminator
        parts += [f"{before}{line}{end}" for line in lines]
    handler.acquire()
    try:
        handler.stream.write("".join(parts))
        handler.flush()
    except Exception:
        handler.handleError(_record(parts[0], time.time()))
    finally:
        handler.release()


_later = Later(write_now)
_MARK = "\0"


def _plain_handler() -> logging.StreamHandler | None:  # type: ignore[type-arg] # of any stream
    """The only handler of the lines, if it treats all alike; None if somebody has other plans with them."""
    logger = trace_logger
    if logger.propagate or logger.filters or len(logger.handlers) != 1:
        return None
    handler = logger.handlers[0]
    if type(handler) is not logging.StreamHandler or handler.filters or handler.level > logging.INFO:
        return None
    formatter = handler.formatter
    is_kserves = type(formatter) is logging.Formatter and formatter._fmt == KSERVE_TRACE_LOGGER_FORMAT
    return handler if is_kserves else None


def _record(line: str, created: float) -> logging.LogRecord:
    # Who called says nothing here, and costs more than the rest.
    record = trace_logger.makeRecord(trace_logger.name, logging.INFO, __file__, 0, line, (), None, "log")
    record.created, record.msecs = created, float(int(created % 1 * 1000))
    return record


def _milliseconds(seconds: float | None) -> str:
    # To the clock's last digit.
    return "0" if seconds is None else f"{seconds * 1000:.6f}"
