"""The `penstock` command: its parser, the dispatch to verbs, and `penstock serve`.

Exit status of `penstock serve`: 0 all requests finished, 1 the start failed, 2 wrong usage, 3 the drain deadline (or a
second signal) cut requests off.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from penstock._cli import attach, build, detect, export, infer, reload, shim
from penstock._config import settings
from penstock._runtime import tracebacks
from penstock._runtime.console import echo
from penstock.config import ServerConfig, load_config
from penstock.errors import LoadError, StartupError

__all__ = ["main"]

OK, FAILED, USAGE, CUT = 0, 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status.

    Args:
        arguments: The command line without the program's name; `sys.argv` by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["shim"]:
        # Before argparse: the arguments after the first `--` belong to another program.
        return shim.run(given[1:])
    try:
        options = _parser().parse_args(given)
    except SystemExit as stopped:
        # argparse has printed its help or error message.
        return OK if stopped.code in (None, 0) else USAGE
    if options.command is None:
        _parser().print_help()
        return USAGE
    if options.command == "infer":
        return infer.run(options)
    try:
        if options.command == "reload":
            return reload.run(options)
        if options.command == "attach":
            return attach.run(options)
        if options.command in detect.COMMANDS:
            return detect.run(options)
        if options.command == "build":
            return build.run(options)
        if options.command == "export":
            return export.run(options)
        return _serve(options)
    except StartupError as error:
        return _fail(error)


def _serve(options: argparse.Namespace) -> int:
    from penstock._images import run as in_image
    from penstock._reload.code import Code
    from penstock._reload.reloader import Reloader
    from penstock._runtime.threads import bound_threads
    from penstock._serve import run
    from penstock._server.server import Server
    from penstock.integrations._targets import Loader, read_options

    given = {
        setting.name: text if isinstance(text, str) else os.pathsep.join(text)
        for setting in fields(ServerConfig)
        if (text := getattr(options, setting.name)) is not None
    }
    bound_threads()
    # Before the user's code is imported, which may take minutes.
    loader = Loader(options.integration, read_options(options.option))
    defaults = loader.settings(options.targets)
    config = load_config(command_line=given, file=options.config, defaults=defaults)
    if not options.targets and not config.repository and config.attach is None:
        print("penstock serve: error: give a PATH[:object] to serve, a --repository, or --attach", file=sys.stderr)
        return USAGE
    code_only = bool(options.integration or options.option or options.reload)
    request = in_image.ServeRequest(
        targets=options.targets, config=config, given=given, file=options.config, code_only=code_only
    )
    if options.in_image:
        return in_image.run(request)
    if options.in_image is None:
        in_image.run_if_unchanged(request)
    if config.pid_file is not None:
        # The user's code may change the working directory.
        config = replace(config, pid_file=os.path.abspath(config.pid_file))
    code = Code(options.targets, loader)
    models = code.load()
    server = Server(*models, config=config)
    cut = run.run(server, models, Reloader(server, code, watches=options.reload), loader.greetings)
    if not cut:
        return OK
    echo(f"penstock: cut off: {', '.join(cut)}")
    # Interpreter finalization would kill handlers that still run in the middle of a call.
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(CUT)


def _fail(error: StartupError) -> int:
    if isinstance(error, LoadError) and isinstance(error.__cause__, Exception):
        print(tracebacks.user_traceback(error.__cause__), file=sys.stderr, end="")
    print(f"penstock: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock", description="Serve Python models and send them requests.", allow_abbrev=False
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        allow_abbrev=False,
        usage="penstock serve [PATH[:object] ...] [SETTING ...]",
        help="serve the models of files, folders or modules",
        description="Serves the models of files, folders, modules and repositories until SIGINT or SIGTERM.",
        epilog="Every setting can also be a PENSTOCK_* variable or a key of [server] in penstock.toml. "
        "Exit status: 0 drained, 1 the start failed, 2 wrong usage, 3 requests were cut off.",
    )
    serve.add_argument(
        "targets",
        nargs="*",
        metavar="PATH[:object]",
        help="file or module, with all its @models or one object; or folder",
    )
    serve.add_argument("--integration", metavar="NAME", help="integration that serves the paths (default: detected)")
    serve.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="option passed to the integration; may be given several times",
    )
    serve.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")
    for setting in fields(ServerConfig):
        _add_setting(serve, setting.name, setting.metadata["kind"], setting.metadata["help"], setting.default)
    serve.add_argument("--reload", action="store_true", help="reload the code when its files change; for development")
    serve.add_argument(
        "--in-image",
        action=argparse.BooleanOptionalAction,
        help="run the image that penstock build built of the path, with docker or podman (default: if it exists and "
        "the path has not changed since)",
    )
    reload.add_parser(commands)
    attach.add_parser(commands)
    detect.add_parsers(commands)
    build.add_parser(commands)
    export.add_parser(commands)
    infer.add_parser(commands)
    commands.add_parser("shim", help=shim.SUMMARY)
    return parser


def _add_setting(parser: argparse.ArgumentParser, name: str, kind: str, text: str, default: Any) -> None:
    flag = "--" + name.replace("_", "-")
    shown = f"{text} (default: {_shown(kind, default)})".replace("%", "%%")
    # The text is only checked here; config.py converts it.
    reader = _checked(kind)
    if kind == "switch":
        group = parser.add_mutually_exclusive_group()
        group.add_argument(flag, dest=name, action="store_const", const="true", help=shown)
        group.add_argument(f"--no-{flag[2:]}", dest=name, action="store_const", const="false", help=argparse.SUPPRESS)
    else:
        # Folders are given one by one, since their names may contain commas and colons.
        action = "append" if kind == "folders" else "store"
        parser.add_argument(flag, dest=name, action=action, metavar=_METAVARS.get(kind, kind), type=reader, help=shown)


def _checked(kind: str) -> Any:
    def read(text: str) -> str:
        try:
            settings.parse(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return read


def _shown(kind: str, default: Any) -> str:
    if default is None:
        return "off"
    if kind == "switch":
        return "on" if default else "off"
    if kind == "seconds":
        return f"{default:g}s"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if kind == "size" and default % size == 0:
            return f"{default // size}{unit}"
    return {None: "off", (): "none"}.get(default, str(default))


class _Version(argparse.Action):
    """Prints the version. Imports the compiled extension only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import penstock

        print(f"penstock {penstock.__version__}")
        parser.exit()


_METAVARS = {
    "address": "ADDRESS",
    "seconds": "TIME",
    "size": "SIZE",
    "count": "N",
    "positive": "N",
    "text": "TEXT",
    "attach": "ADDRESS",
    "pattern": "PATTERN",
    "rules": "RULES",
    "secret": "SECRET",
    "folders": "DIR",
    "names": "NAMES",
    "listeners": "LISTENERS",
    "hosts": "NAMES",
    "policy": "POLICY",
}
