"""`penstock serve`: serves the models of files, folders, modules and repositories.

Exit status: 0 all requests finished, 1 the start failed, 2 wrong usage, 3 the drain deadline (or a second signal) cut
requests off.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from penstock._cli.settings import add_settings
from penstock._config.resolve import Sources
from penstock._config.served import ServedSettings
from penstock._config.sockets import inherited
from penstock._config.sources import Defaults
from penstock._runtime import progress, tracebacks
from penstock._runtime.console import echo
from penstock.config import ServerConfig
from penstock.errors import LoadError, StartupError

if TYPE_CHECKING:
    from penstock._serve.program import Program
    from penstock._serve.run import Foreground
    from penstock._serve.successor import Successor
    from penstock._server.server import Server
    from penstock.integrations._targets import Loader

__all__ = [
    "DEFAULTS",
    "Prepared",
    "add_arguments",
    "add_parser",
    "ending_signals",
    "interruptible",
    "prepare",
    "report",
    "run",
    "serve",
    "sources",
]

OK, FAILED, USAGE, CUT = 0, 1, 2, 3

DEFAULTS = {"log_level": "info"}
"""Settings of the command that differ from those of `Server`."""

_LOAD_ABORT_TIMEOUT = 1.0
"""Seconds that compiled code may go on after a signal that ends a load, besides those for closing models."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The targets' loader and the settings of a command line.

    Attributes:
        loader: Loads the targets.
        settings: All settings.
        given: The settings of the command line, as text.
        names: Names of the sockets from systemd.
    """

    loader: Loader
    settings: ServedSettings[ServerConfig]
    given: Mapping[str, str]
    names: Sequence[str]

    @property
    def config(self) -> ServerConfig:
        """The configuration."""
        return self.settings.config


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "serve",
        allow_abbrev=False,
        usage="penstock serve [PATH[:object] ...] [SETTING ...]",
        help="serve the models of files, folders or modules",
        description="Serves the models of files, folders, modules and repositories until SIGINT or SIGTERM.",
        epilog="Every setting can also be a PENSTOCK_* variable or a key of [server] in penstock.toml. "
        "Exit status: 0 drained, 1 the start failed, 2 wrong usage, 3 requests were cut off.",
    )
    add_arguments(parser)
    parser.add_argument("--reload", action="store_true", help="reload the code when its files change; for development")
    parser.add_argument(
        "--in-image",
        action=argparse.BooleanOptionalAction,
        help="run the image that penstock build built of the path, with docker or podman (default: if it exists and "
        "the path has not changed since)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that `serve` and `dev` share."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="PATH[:object]",
        help="file or module, with all its @models or one object; or folder",
    )
    parser.add_argument("--integration", metavar="NAME", help="integration that serves the paths (default: detected)")
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="option passed to the integration; may be given several times",
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")
    add_settings(parser)


def prepare(options: argparse.Namespace, defaults: Mapping[str, str] = DEFAULTS) -> Prepared | None:
    """Reads the settings, and sets up the console. None, with a message, if there is nothing to serve.

    Args:
        options: The parsed arguments.
        defaults: Defaults that precede those of `ServerConfig`.

    Raises:
        StartupError: a setting is wrong, or no integration recognises a target.
    """
    from penstock import logs
    from penstock._runtime.threads import bound_threads
    from penstock.integrations._targets import Loader, read_options

    bound_threads()
    # Before the user's code is imported, which may take minutes.
    loader = Loader(options.integration, read_options(options.option))
    own = Defaults(f"default of penstock {options.command}", defaults, built_in=True)
    given = sources(options, own, *loader.settings(options.targets))
    settings = ServedSettings.of(ServerConfig, given)
    config = settings.config
    if not options.targets and not config.repository and config.attach is None:
        command = options.command
        print(f"penstock {command}: error: give a PATH[:object] to serve, a --repository, or --attach", file=sys.stderr)
        return None
    names = inherited.names(os.environ)
    inherited.claim(config.addresses, os.environ)
    if config.pid_file is not None:
        # The user's code may change the working directory.
        settings = replace(settings, config=replace(config, pid_file=os.path.abspath(config.pid_file)))
    logs.setup_console(config.log_level, as_json=config.access_log == "json")
    return Prepared(loader, settings, given.command_line, names)


def sources(options: argparse.Namespace, *defaults: Defaults) -> Sources:
    """Sources of the settings of a command line.

    Args:
        options: The parsed arguments.
        defaults: Defaults that precede those of `ServerConfig`, with their origins; later ones take precedence.
    """
    given = {
        setting.name: text if isinstance(text, str) else os.pathsep.join(text)
        for setting in fields(ServerConfig)
        if (text := getattr(options, setting.name)) is not None
    }
    return Sources(command_line=given, file=options.config, defaults=defaults)


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: the models cannot be loaded, or an address cannot be bound.
    """
    from penstock._serve.program import Program
    from penstock._serve.successor import Successor

    # Both before code of the user runs.
    program = Program.of_this_process()
    successor = Successor.read(os.environ)
    if successor is None:
        return _run(options, program, None)
    with successor.reported():
        return _run(options, program, successor)


def _run(options: argparse.Namespace, program: Program, successor: Successor | None) -> int:
    from penstock._images import run as in_image
    from penstock._reload.code import Code
    from penstock._reload.reloader import Reloader
    from penstock._serve.run import Foreground
    from penstock._serve.signals import SignalledError
    from penstock._serve.upgrade import Upgradable
    from penstock._server.server import Server

    if (prepared := prepare(options)) is None:
        return USAGE
    code_only = bool(options.integration or options.option or options.reload)
    request = in_image.ServeRequest(
        targets=options.targets,
        config=prepared.config,
        given=dict(prepared.given),
        file=options.config,
        code_only=code_only,
    )
    if options.in_image:
        return in_image.run(request)
    # A container cannot take the sockets of a process.
    if options.in_image is None and successor is None:
        in_image.run_if_unchanged(request)
    code = Code(options.targets, prepared.loader)
    try:
        with interruptible(", ".join(options.targets)):
            models = code.load()
    except SignalledError:
        return OK
    server = Server._prepared(models, prepared.settings, prepared.loader.integration_of_model)
    reloader = Reloader(server, code, watches=options.reload)
    upgradable = Upgradable(program=program, names=prepared.names, successor=successor)
    return serve(server, models, Foreground(reloader, prepared.loader.greetings, upgradable=upgradable))


@contextmanager
def interruptible(what: str) -> Iterator[progress.Progress]:
    """Shows the progress of a load, which a signal ends. A second signal ends the process.

    Args:
        what: The load, as the lines name it.

    Raises:
        SignalledError: a signal came.
    """
    with ending_signals("penstock: loading is stopped; signal again to end at once"), progress.shown(what) as shown:
        yield shown


@contextmanager
def ending_signals(message: str = "") -> Iterator[None]:
    """Lets a signal end the block, and a second one the process.

    Args:
        message: Printed at the first signal.

    Raises:
        SignalledError: a signal came.
    """
    from penstock._serve.signals import LoadSignals

    signals = LoadSignals([signal.SIGINT, signal.SIGTERM], start_timeout=_LOAD_ABORT_TIMEOUT)
    with signals.caught():
        signals.message, signals.interrupt = message, True
        try:
            yield
        finally:
            signals.interrupt = False


def serve(server: Server, models: list[Any], foreground: Foreground) -> int:
    """Serves until a signal. Returns the exit status, or ends the process with it.

    Raises:
        StartupError: the models cannot be loaded, or an address cannot be bound.
    """
    from penstock._serve import run as in_foreground

    cut = in_foreground.run(server, models, foreground)
    if not cut:
        return OK
    echo(f"penstock: cut off: {', '.join(cut)}")
    # Interpreter finalization would kill handlers that still run in the middle of a call.
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(CUT)


def report(error: StartupError) -> int:
    """Prints why a start failed, with the traceback of the user's code. Returns the exit status."""
    if isinstance(error, LoadError) and isinstance(error.__cause__, Exception):
        print(tracebacks.user_traceback(error.__cause__), file=sys.stderr, end="")
    print(f"penstock: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return FAILED
