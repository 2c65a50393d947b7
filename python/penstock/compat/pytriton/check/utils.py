"""What functional tests of PyTriton's users are written with. py-spy is used where it is installed, psutil never."""

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
    """A port of this machine on which nobody listens now."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])


def search_warning_on_too_verbose_log_level(logs: str) -> re.Match[str] | None:
    """Where logs warn that the server's own log is verbose; None if they do not."""
    text = r"Triton Inference Server is running with enabled verbose logs.*It may affect inference performance\."
    return re.search(text, logs)
