"""The latency log: one line per request with the duration of each stage."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.compat.kserve._metrics.deferred import Deferred
from penstock.compat.kserve.logging import KSERVE_TRACE_LOGGER_FORMAT, trace_logger

if TYPE_CHECKING:
    from penstock.compat.kserve._metrics.stage_times import StageTimes

__all__ = ["format_line", "is_enabled", "write", "write_now"]


def is_enabled() -> bool:
    """Returns whether the logger takes the lines."""
    return trace_logger.isEnabledFor(logging.INFO)


def format_line(times: StageTimes, headers: Mapping[str, str] | None) -> str:
    """Returns the line of a request."""
    request_id = headers.get("x-request-id", "N.A.") if headers else "N.A."
    return (
        f"requestId: {request_id}, preprocess_ms: {_milliseconds(times.preprocess)}, "
        f"explain_ms: {_milliseconds(times.explain)}, predict_ms: {_milliseconds(times.predict)}, "
        f"postprocess_ms: {_milliseconds(times.postprocess)}"
    )


def write(lines: Sequence[str]) -> None:
    """Writes the lines of requests that were computed together.

    Several lines are deferred and written with those of others: a write releases the GIL, and the responses would wait
    until another thread gives it back.
    """
    if len(lines) == 1 and not _deferred.pending:
        write_now([(time.time(), lines)])
    else:
        _deferred.add((time.time(), lines))


Batch = tuple[float, Sequence[str]]
"""Lines, and their time in seconds of the Unix clock."""


def write_now(batches: Iterable[Batch]) -> None:
    """Writes lines; as one string if the logger has KServe's own set-up, which formats all lines alike."""
    handler = _kserve_handler()
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


_deferred = Deferred(write_now)
_MARK = "\0"


def _kserve_handler() -> logging.StreamHandler | None:  # type: ignore[type-arg] # of any stream
    """Returns the logger's only handler if it has KServe's set-up; None if the script changed it."""
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
    # Without a look-up of the caller, which costs more than the rest and means nothing here.
    record = trace_logger.makeRecord(trace_logger.name, logging.INFO, __file__, 0, line, (), None, "log")
    record.created, record.msecs = created, float(int(created % 1 * 1000))
    return record


def _milliseconds(seconds: float | None) -> str:
    # Six digits: the clock's nanoseconds.
    return "0" if seconds is None else f"{seconds * 1000:.6f}"
