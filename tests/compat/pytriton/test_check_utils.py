"""`pytriton.check.utils`, the tools of functional tests."""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.compat.pytriton.check import utils
from waiting import PATIENCE, until

PRINTS = "import sys; print('out\\nput'); print('err', file=sys.stderr)"


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """Restores the root logger after the test."""
    logger = logging.getLogger()
    handlers, level = [*logger.handlers], logger.level
    yield logger
    for handler in {*logger.handlers} - {*handlers}:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


def test_free_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", utils.find_free_port())):
        pass


def test_script_runs_in_the_background_and_its_output_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), utils.ScriptThread([sys.executable, "-c", PRINTS], name="printer") as script:
        pass
    assert script.returncode == 0
    assert sorted(script.output.splitlines()) == ["err", "out", "put"]
    assert not script.active
    assert script.process is None
    assert "printer process finished with 0" in caplog.text


def test_script_receives_signals(tmp_path: Path) -> None:
    code = "import os, signal; print(os.getcwd(), flush=True); signal.pause()"
    with utils.ScriptThread([sys.executable, "-c", code], workdir=tmp_path) as script:
        assert script.active
        until(lambda: script.output, "the output")
        assert script.process is not None
        script.process.send_signal(signal.SIGTERM)
    assert script.returncode == -signal.SIGTERM
    assert script.output == str(tmp_path)


def test_missing_script_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with utils.ScriptThread(["/nonexistent/command"]) as script:
        pass
    assert script.returncode is None
    assert "cannot be started" in caplog.text


def test_warning_about_verbose_logs_is_found() -> None:
    text = "Triton Inference Server is running with enabled verbose logs (log_verbose_level=4). "
    assert utils.search_warning_on_too_verbose_log_level(text + "It may affect inference performance.")
    assert utils.search_warning_on_too_verbose_log_level(text) is None


def test_processes_are_monitored(caplog: pytest.LogCaptureFixture) -> None:
    pids: list[int] = []
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with caplog.at_level(logging.DEBUG):
            monitoring = utils.ProcessMonitoring(os.getpid(), loglevel=logging.DEBUG)
            monitoring.register_custom_monitor(pids.append)
            assert child.pid in [process.pid for process in monitoring.children]
            monitoring.dump_state()
        assert {os.getpid(), child.pid} <= {*pids}
        assert f"parent={os.getpid()}" in caplog.text
        assert "num_threads" in caplog.text
    finally:
        child.kill()
        child.wait()
    with caplog.at_level(logging.DEBUG):
        monitoring.dump_state()
    assert "is missing in process table" in caplog.text


def test_thread_calls_monitors_periodically() -> None:
    calls = threading.Semaphore(0)
    monitoring = utils.ProcessMonitoring(os.getpid(), loglevel=logging.DEBUG)
    monitoring.register_custom_monitor(lambda _: calls.release())
    with utils.ProcessMonitoringThread(monitoring, interval=0.01):
        for _ in range(3):
            assert calls.acquire(timeout=PATIENCE)


def test_logs_of_a_test_follow_the_command_line(tmp_path: Path, root_logger: logging.Logger) -> None:
    parser = argparse.ArgumentParser()
    utils.TestMonitoringContext.extend_args(parser)
    log = tmp_path / "test.log"
    options = ["--log-path", str(log), "--compress-logs", "--maximum-log-file", "2000"]
    root_logger.setLevel(logging.DEBUG)
    with utils.TestMonitoringContext(parser.parse_args([*options, "--process-monitoring-interval", "0.01"])):
        full = until(lambda: [*tmp_path.glob("test.log.*.gz")], "a full log")
    with gzip.open(full[0], "rt") as text:
        assert " - monitoring - root: " in text.read()
    with utils.TestMonitoringContext(parser.parse_args([])):
        pass
