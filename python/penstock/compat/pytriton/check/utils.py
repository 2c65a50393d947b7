"""Tools for functional tests of PyTriton's users. py-spy is optional, and psutil is not needed."""

from __future__ import annotations

import re
import socket

from penstock.compat.pytriton.check._monitoring import (
    DEFAULT_LOG_FORMAT,
    ProcessMonitoring,
    ProcessMonitoringThread,
    TestMonitoringContext,
)
from penstock.compat.pytriton.check._script import ScriptThread

__all__ = [
    "DEFAULT_LOG_FORMAT",
    "ProcessMonitoring",
    "ProcessMonitoringThread",
    "ScriptThread",
    "TestMonitoringContext",
    "find_free_port",
    "search_warning_on_too_verbose_log_level",
]


def find_free_port() -> int:
    """Returns a TCP port that is free at this moment."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])


def search_warning_on_too_verbose_log_level(logs: str) -> re.Match[str] | None:
    """Returns the match of the warning about a verbose server log; None if the logs do not contain it."""
    text = r"Triton Inference Server is running with enabled verbose logs.*It may affect inference performance\."
    return re.search(text, logs)
