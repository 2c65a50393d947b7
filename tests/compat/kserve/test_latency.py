"""The latency log: lines, and writes of several lines together."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from tests.waiting import until

from penstock.compat.kserve._metrics import latency_log
from penstock.compat.kserve._metrics.deferred import Deferred
from penstock.compat.kserve._metrics.stage_times import StageTimes
from penstock.compat.kserve.logging import (
    KSERVE_LOGGER_DATE_FORMAT,
    KSERVE_TRACE_LOGGER_FORMAT,
    trace_logger,
)

LINES = ["requestId: 1, with %s", "requestId: 2"]


@pytest.fixture(autouse=True)
def _logger() -> Iterator[None]:
    before = trace_logger.handlers, trace_logger.level, trace_logger.propagate
    trace_logger.handlers, trace_logger.propagate = [], False
    trace_logger.setLevel(logging.INFO)
    yield
    trace_logger.handlers, trace_logger.propagate = before[0], before[2]
    trace_logger.setLevel(before[1])


def write_lines(handler: logging.Handler, formatter: logging.Formatter | None = None) -> None:
    handler.setFormatter(formatter or logging.Formatter(KSERVE_TRACE_LOGGER_FORMAT, KSERVE_LOGGER_DATE_FORMAT))
    # Without pytest's own handlers.
    trace_logger.handlers = [handler]
    latency_log.write_now([(time.time(), LINES)])


class CountingStream(io.StringIO):
    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


def test_lines_are_written_together_in_the_handler_format() -> None:
    stream = CountingStream()
    write_lines(logging.StreamHandler(stream))
    lines = stream.getvalue().splitlines()
    assert stream.writes == 1
    assert [line.partition(" kserve.trace ")[2] for line in lines] == LINES
    one = io.StringIO()
    trace_logger.handlers[0].setStream(one)  # type: ignore[attr-defined] # it is a StreamHandler
    trace_logger.info(LINES[1])
    assert one.getvalue().split()[2:] == lines[1].split()[2:]


class RecordingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    records: list[str]

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())


def test_custom_handlers_get_records() -> None:
    handler = RecordingHandler(io.StringIO())
    handler.records = []
    write_lines(handler)
    assert handler.records == LINES


def test_custom_formats_apply_to_each_line() -> None:
    stream = CountingStream()
    write_lines(logging.StreamHandler(stream), logging.Formatter("%(levelname)s %(message)s"))
    assert stream.getvalue().splitlines() == [f"INFO {line}" for line in LINES]


@pytest.mark.parametrize("filtered", ["logger", "handler"])
def test_logger_and_handler_filters_apply(filtered: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)

    def second(record: logging.LogRecord) -> bool:
        return record.getMessage() == LINES[1]

    target: Any = trace_logger if filtered == "logger" else handler
    target.addFilter(second)
    try:
        write_lines(handler)
    finally:
        target.removeFilter(second)
    assert [line.partition(" kserve.trace ")[2] for line in stream.getvalue().splitlines()] == LINES[1:]


def test_failing_log_streams_do_not_fail_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()
    stream.close()
    write_lines(logging.StreamHandler(stream))


def test_lines_below_the_level_are_not_created() -> None:
    assert latency_log.is_enabled()
    trace_logger.setLevel(logging.WARNING)
    assert not latency_log.is_enabled()


def test_skipped_stages_report_zero() -> None:
    times = StageTimes()
    times.predict = 0.0015
    line = latency_log.format_line(times, None)
    assert line == "requestId: N.A., preprocess_ms: 0, explain_ms: 0, predict_ms: 1.500000, postprocess_ms: 0"


def test_batched_lines_are_deferred_in_order_with_their_times() -> None:
    stream = CountingStream()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(KSERVE_TRACE_LOGGER_FORMAT, KSERVE_LOGGER_DATE_FORMAT))
    trace_logger.handlers = [handler]
    start = time.time()
    latency_log.write(["1", "2"])
    latency_log.write(["3"])
    lines = until(lambda: text if len(text := stream.getvalue().splitlines()) == 3 else [])
    assert [line.rpartition(" ")[2] for line in lines] == ["1", "2", "3"]
    timestamps = [datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").timestamp() for line in lines]
    assert all(start - 0.001 <= time < start + 5 for time in timestamps)
    # A single line is written at once.
    until(lambda: not latency_log._deferred.pending)
    latency_log.write(["4"])
    assert stream.getvalue().endswith(" 4\n")


def test_deferred_lines_are_written_at_exit() -> None:
    program = """
        from penstock.compat.kserve._metrics import latency_log
        from penstock.compat.kserve.logging import configure_logging

        configure_logging()
        latency_log.write(["1", "2"])
        latency_log._deferred.add((0.0, ["3"]))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=60
    )
    assert [line.rpartition(" ")[2] for line in process.stderr.splitlines()] == ["1", "2", "3"], process.stderr


def test_raising_consumer_does_not_lose_later_items(capsys: pytest.CaptureFixture[str]) -> None:
    received: list[int] = []

    def consume(items: list[int]) -> None:
        if items == [1]:
            raise ValueError("no")
        received.extend(items)

    deferred = Deferred(consume)
    deferred.add(1)
    until(lambda: not deferred.pending)
    deferred.add(2)
    until(lambda: received == [2])
    assert "ValueError: no" in capsys.readouterr().err
