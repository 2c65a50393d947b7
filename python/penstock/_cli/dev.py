"""`penstock dev`: serves models while they are developed."""

from __future__ import annotations

import argparse
import re
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

from penstock._cli import serve
from penstock._config.listeners import bare
from penstock._runtime import tracebacks
from penstock._runtime.console import echo
from penstock.errors import BindError, ConfigError, StartupError

if TYPE_CHECKING:
    from penstock._reload.code import Code
    from penstock._reload.file_watch import FileWatch
    from penstock._server.server import Server
    from penstock.config import ServerConfig

__all__ = ["add_parser", "run"]

_DEFAULTS = {"access_log": "short", "log_level": "debug", "timing_headers": "true", "drain_timeout": "2s"}
"""Settings of the command that differ from those of `Server`. The timing headers give a line its rows."""

_LOCAL = re.compile(r"(127(\.\d+){3}|localhost|\[::1\]):\d+|unix:.*")
"""Addresses that only programs of this machine reach."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "dev",
        allow_abbrev=False,
        usage="penstock dev [PATH[:object] ...] [--open] [SETTING ...]",
        help="serve models while you write them",
        description="Serves models as `penstock serve` does, and reloads them when their files change. Prints a line "
        "for each request. Sends the tracebacks of handlers to clients of this machine. Waits for a change if the code "
        "is broken.",
        epilog="Every setting can also be a PENSTOCK_* variable or a key of [server] in penstock.toml. "
        "Exit status: as of `penstock serve`.",
    )
    serve.add_arguments(parser)
    parser.add_argument("--open", action="store_true", help="open the documentation page /docs in a browser")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: a setting is wrong, or an address cannot be bound.
    """
    from penstock._reload.code import Code
    from penstock._reload.file_watch import FileWatch
    from penstock._serve.signals import SignalledError

    if (prepared := serve.prepare(options, _DEFAULTS)) is None:
        return serve.USAGE
    if _is_local(prepared.config):
        tracebacks.send_to_clients()
    code = Code(options.targets, prepared.loader)
    files, attempts = FileWatch(code), 0
    while True:
        before, attempts = files.begin(), attempts + 1
        try:
            return _serve_once(options, prepared, code, again=attempts > 1)
        except SignalledError:
            return serve.OK
        except (BindError, ConfigError):
            # No change of the code helps.
            raise
        except StartupError as error:
            serve.report(error)
            # The traceback holds the frames of the failed code.
            error.__cause__ = error.__traceback__ = None
        files.finish(before, failed=True)
        if not _await_change(files):
            return serve.OK


def _serve_once(options: argparse.Namespace, prepared: serve.Prepared, code: Code, *, again: bool) -> int:
    """Loads the code and serves it until a signal.

    Raises:
        StartupError: the code or a model cannot be loaded.
    """
    from penstock._reload.reloader import Reloader
    from penstock._serve.run import Foreground
    from penstock._server.server import Server

    what = ", ".join(options.targets) or "the repository"
    with serve.interruptible(what) as shown:
        models = code.reload() if again else code.load()
    if options.targets:
        echo(f"penstock: imported {what} in {shown.seconds:.2f} s")
    server = Server._prepared(models, prepared.settings, prepared.loader.integration_of_model)
    started = _open_docs if options.open else None
    reloader = Reloader(server, code, watches=True)
    return serve.serve(server, models, Foreground(reloader, prepared.loader.greetings, started, reports_load=True))


def _await_change(files: FileWatch) -> bool:
    """Waits until a file changes. False if a signal came first."""
    from penstock._reload.file_watch import POLL_INTERVAL
    from penstock._reload.reloader import names_of
    from penstock._serve.signals import SignalledError

    never = threading.Event()
    try:
        # Without lines of progress: the wait may last for hours.
        with serve.ending_signals():
            echo("penstock: waiting for a change of the files; Ctrl-C ends")
            while not (changed := files.changed(never)):
                never.wait(POLL_INTERVAL)
    except SignalledError:
        return False
    echo(f"penstock: {names_of(changed)} changed, loading again")
    return True


def _is_local(config: ServerConfig) -> bool:
    """True if only programs of this machine can connect."""
    own = [address for address in (config.http, config.grpc) if address is not None]
    further = [address for name, _, address in (text.partition("=") for text in config.listeners) if name != "metrics"]
    return all(_LOCAL.fullmatch(bare(address)) for address in (*own, *further))


def _open_docs(server: Server) -> None:
    """Opens the documentation page. On a thread, because a browser of the terminal blocks until it is left."""
    if server.http_address is None or server.http_url.startswith("unix:") or not server.config.docs:
        echo("penstock: --open: there is no page to open, because docs or http is off")
        return
    page = f"{server.http_url}/docs"

    def show() -> None:
        if not webbrowser.open(page):
            echo(f"penstock: --open: no browser was found; the page is {page}")

    threading.Thread(target=show, name="penstock-open", daemon=True).start()
