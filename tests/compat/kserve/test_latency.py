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


def written(handler: logging.Handler, formatter: logging.Formatter | None = None) -> None:
    handler.setFormatter(formatter or logging.Formatter(KSERVE_TRACE_LOGGER_FORMAT, KSERVE_LOGGER_DATE_FORMAT))
    # Without pytest's own handlers.
    trace_logger.handlers = [handler]
    latency_log.write_now([(time.time(), LINES)])


class Counting(io.StringIO):
    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


def test_lines_are_written_at_once_as_the_handler_would_one_by_one() -> None:
    stream = Counting()
    written(logging.StreamHandler(stream))
    lines = stream.getvalue().splitlines()
    assert stream.writes == 1
    assert [line.partition(" kserve.trace ")[2] for line in lines] == LINES
    one = io.StringIO()
    trace_logger.handlers[0].setStream(one)  # type: ignore[attr-defined] # it is a StreamHandler
    trace_logger.info(LINES[1])
    assert one.getvalue().split()[2:] == lines[1].split()[2:]


class Other(logging.StreamHandler):  # type: ignore[type-arg]
    records: list[str]

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())


def test_a_handler_of_the_scripts_own_gets_records() -> None:
    handler = Other(io.StringIO())
    handler.records = []
    written(handler)
    assert handler.records == LINES


def test_another_format_gets_each_line_in_that_format() -> None:
    stream = Counting()
    written(logging.StreamHandler(stream), logging.Formatter("%(levelname)s %(message)s"))
    assert stream.getvalue().splitlines() == [f"INFO {line}" for line in LINES]


@pytest.mark.parametrize("filtered", ["logger", "handler"])
def test_filters_apply(filtered: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)

    def second(record: logging.LogRecord) -> bool:
        return record.getMessage() == LINES[1]

    where: Any = trace_logger if filtered == "logger" else handler
    where.addFilter(second)
    try:
        written(handler)
    finally:
        where.removeFilter(second)
    assert [line.partition(" kserve.trace ")[2] for line in stream.getvalue().splitlines()] == LINES[1:]


def test_a_stream_that_fails_fails_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()
    stream.close()
    written(logging.StreamHandler(stream))


def test_lines_below_the_level_are_not_created() -> None:
    assert latency_log.is_enabled()
    trace_logger.setLevel(logging.WARNING)
    assert not latency_log.is_enabled()


def test_stages_that_did_not_run_took_no_time() -> None:
    times = StageTimes()
    times.predict = 0.0015
    line = latency_log.format_line(times, None)
    assert line == "requestId: N.A., preprocess_ms: 0, explain_ms: 0, predict_ms: 1.500000, postprocess_ms: 0"


def test_several_lines_are_written_a_moment_later_in_their_order_with_their_times() -> None:
    stream = Counting()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(KSERVE_TRACE_LOGGER_FORMAT, KSERVE_LOGGER_DATE_FORMAT))
    trace_logger.handlers = [handler]
    began = time.time()
    latency_log.write(["1", "2"])
    latency_log.write(["3"])
    lines = until(lambda: text if len(text := stream.getvalue().splitlines()) == 3 else [])
    assert [line.rpartition(" ")[2] for line in lines] == ["1", "2", "3"]
    told = [datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").timestamp() for line in lines]
    assert all(began - 0.001 <= time < began + 5 for time in told)
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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=60
    )
    assert [line.rpartition(" ")[2] for line in done.stderr.splitlines()] == ["1", "2", "3"], done.stderr


def test_a_raising_consumer_does_not_lose_later_items(capsys: pytest.CaptureFixture[str]) -> None:
    taken: list[int] = []

    def take(things: list[int]) -> None:
        if things == [1]:
            raise ValueError("no")
        taken.extend(things)

    later = Deferred(take)
    later.add(1)
    until(lambda: not later.pending)
    later.add(2)
    until(lambda: taken == [2])
    assert "ValueError: no" in capsys.readouterr().err
