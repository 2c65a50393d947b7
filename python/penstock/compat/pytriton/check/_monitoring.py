"""Monitoring of processes during a test: `ProcessMonitoring`, and the test's logs."""

from __future__ import annotations

import faulthandler
import gzip
import logging
import logging.handlers
import os
import re
import shutil
import subprocess
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.compat.pytriton.check._process import Process

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DEFAULT_LOG_FORMAT", "ProcessMonitoring", "ProcessMonitoringThread", "TestMonitoringContext"]

DEFAULT_LOG_FORMAT = "%(asctime)s - %(levelname)8s - %(process)8d - %(threadName)s - %(name)s: %(message)s"
_COLOR = re.compile(r"\x1b\[.*?m")
_MAX_LOG_FILES = 500


class ProcessMonitoring:
    """Logs a process and its descendants: command lines, resource use, and stacks if py-spy is installed.

    Args:
        pid: Process id.
        logger: Destination, by default the logger "monitoring".
        loglevel: Level of the log lines.
        remove_color: Remove the color codes of py-spy's output.
    """

    def __init__(
        self, pid: int, logger: logging.Logger | None = None, loglevel: int = logging.INFO, remove_color: bool = False
    ) -> None:
        self._logger = logger or logging.getLogger("monitoring")
        self._level, self._remove_color = loglevel, remove_color
        self._process = Process(pid)
        self._known: set[Process] = set()
        self._monitors: list[Callable[[int], None]] = []
        self._log("Initial list of children processes: %s", self.children)

    def register_custom_monitor(self, custom_monitor: Callable[[int], None]) -> None:
        """Registers a function, which receives the id of each process in each dump."""
        self._monitors.append(custom_monitor)

    @property
    def children(self) -> list[Process]:
        """Descendants of the process that were seen so far."""
        self._known.update(self._process.descendants())
        return sorted(self._known)

    def dump_state(self) -> None:
        """Logs the state of all processes."""
        processes = [self._process, *self.children]
        self._log("==== Dump process stacktrace")
        for process in processes:
            try:
                self._log("Dump stack trace for process (pid=%d) with cmd %s", process.pid, process.command())
                for monitor in self._monitors:
                    monitor(process.pid)
                self._log("%s", self._stack(process.pid))
            except ProcessLookupError as error:
                self._log("Error during handling process: %s", error)
        self._log("==== Dump process info (with its children)")
        for process in processes:
            try:
                self._log("%s parent=%d %s", process, process.parent(), process.state())
            except ProcessLookupError:
                self._log("%s is missing in process table", process)

    def _stack(self, pid: int) -> str:
        py_spy = shutil.which("py-spy")
        if py_spy is None:
            return "py-spy is not installed: no stack"
        command = [py_spy, "dump", "-ll", "--nonblocking", "-p", str(pid)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        stack = (
            completed.stdout
            if completed.returncode == 0
            else f"Error during calling py-spy process: {completed.stderr}"
        )
        return _COLOR.sub("", stack) if self._remove_color else stack

    def _log(self, text: str, *arguments: object) -> None:
        self._logger.log(self._level, text, *arguments)


class ProcessMonitoringThread:
    """Runs a `ProcessMonitoring` periodically. It is a context manager.

    Args:
        monitoring: Monitoring to run.
        interval: Seconds between dumps.
    """

    def __init__(self, monitoring: ProcessMonitoring, interval: float = 60) -> None:
        self._monitoring, self._interval = monitoring, interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitoring", daemon=True)

    def start(self) -> None:
        """Starts the thread, with an immediate dump."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and waits for a dump in progress."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._monitoring.dump_state()
        while not self._stopped.wait(self._interval):
            self._monitoring.dump_state()


class TestMonitoringContext:
    """Configures logging from a test's command line, and monitors the processes. It is a context manager.

    Args:
        args: Result of a parser that `extend_args` extended.
    """

    # pytest would collect this class because of its name.
    __test__ = False

    @staticmethod
    def extend_args(parser: ArgumentParser) -> None:
        """Adds the options that this class reads."""
        parser.add_argument("--verbose", action="store_true", help="Provide verbose logs")
        parser.add_argument("--log-path", type=str, default=None, help="Path of a log file, in addition to the console")
        parser.add_argument("--compress-logs", action="store_true", help="Compress full log files")
        parser.add_argument("--maximum-log-file", type=int, default=10 << 20, help="Maximum bytes of a log file")
        parser.add_argument("--enable-fault-handler", action="store_true", help="Print stacks when the process crashes")
        parser.add_argument("--faulthandler-interval", type=float, default=None, help="Seconds between printed stacks")
        parser.add_argument("--process-monitoring-interval", type=float, default=None, help="Seconds between dumps")

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._monitor: ProcessMonitoringThread | None = None

    def __enter__(self) -> Self:
        args = self._args
        logging.basicConfig(level=logging.DEBUG, format=DEFAULT_LOG_FORMAT)
        logger = logging.getLogger()
        if args.log_path is not None:
            logger.handlers[0].setLevel(logging.DEBUG if args.verbose else logging.INFO)
            logger.addHandler(self._file())
        if args.enable_fault_handler:
            faulthandler.enable()
        if args.faulthandler_interval is not None:
            faulthandler.dump_traceback_later(args.faulthandler_interval, repeat=True, exit=False)
        if args.process_monitoring_interval is not None:
            monitoring = ProcessMonitoring(os.getpid(), logger, loglevel=logging.DEBUG, remove_color=True)
            self._monitor = ProcessMonitoringThread(monitoring, interval=args.process_monitoring_interval)
            self._monitor.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None

    def _file(self) -> logging.Handler:
        args = self._args
        handler = logging.handlers.RotatingFileHandler(
            args.log_path, maxBytes=args.maximum_log_file, backupCount=_MAX_LOG_FILES
        )
        handler.setFormatter(logging.Formatter(DEFAULT_LOG_FORMAT))
        handler.setLevel(logging.DEBUG)
        if args.compress_logs:
            handler.namer = lambda name: f"{name}.gz"
            handler.rotator = _compress
        return handler


def _compress(source: str, compressed: str) -> None:
    with open(source, "rb") as source_file, gzip.open(compressed, "wb") as compressed_file:
        shutil.copyfileobj(source_file, compressed_file)
    Path(source).unlink()
