"""Reading of the settings again, at a signal to a server in the foreground."""

from __future__ import annotations

from penstock import logs
from penstock._runtime.console import echo
from penstock._server.open_files import raise_limit
from penstock._server.server import Server
from penstock.errors import ConfigError

__all__ = ["reload_settings"]


def reload_settings(server: Server) -> None:
    """Reads the settings of a server that has started again, and prints what has changed. Wrong ones change nothing."""
    before = server.config
    try:
        reading = server.reload_settings()
    except ConfigError as error:
        for problem in str(error).splitlines():
            echo(f"penstock: {problem}")
        echo("penstock: the settings stay as they are")
        return
    now = server.config
    if (now.log_level, now.access_log) != (before.log_level, before.access_log):
        logs.setup_console(now.log_level, as_json=now.access_log == "json")
        # The code of the program is imported already.
        logs.release_console()
    if now.max_connections != before.max_connections:
        raise_limit(now.max_connections)
    if reading.in_file or reading.changes:
        for line in reading.lines():
            echo(f"penstock: {line}")
