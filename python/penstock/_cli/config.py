"""`penstock config`: the settings of a server with their origins, their check, and the schema of their file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Any

from penstock._cli import serve
from penstock._config.report import Row, rows_of, table, to_json
from penstock._config.resolve import Resolved, resolve
from penstock._config.sources import Defaults
from penstock._runtime import tracebacks
from penstock.config import ServerConfig
from penstock.errors import LoadError, StartupError
from penstock.integrations._targets import Loader, read_options

__all__ = ["COMMANDS", "add_parsers", "joined", "run"]

SHOW, CHECK, SCHEMA = COMMANDS = ("config", "config check", "config schema")

_EPILOG = "Flags, PENSTOCK_* variables and files are read as by penstock serve."


def add_parsers(commands: Any) -> None:
    """Adds the commands to the parser."""
    show = commands.add_parser(
        SHOW,
        allow_abbrev=False,
        usage="penstock config [PATH[:object] ...] [--json] [--changed] [SETTING ...]",
        help="print the settings of a server, and where each is from",
        description="Prints each setting that a server would have, with its origin: a flag, a variable, a line of the "
        "file, or a default. Values that it takes precedence over follow. With paths, their code is imported, and the "
        "settings of their models are printed too.",
        epilog=f"{_EPILOG} Exit status: 0 printed, 1 a setting is wrong or the code cannot be imported, 2 wrong usage.",
    )
    serve.add_arguments(show)
    show.add_argument("--json", action="store_true", help="print JSON: durations in seconds, sizes in bytes")
    show.add_argument("--changed", action="store_true", help="leave out settings that have their defaults")
    check = commands.add_parser(
        CHECK,
        allow_abbrev=False,
        usage="penstock config check [PATH[:object] ...] [SETTING ...]",
        help="check the settings of a server",
        description="Checks all settings, and prints a line for each problem. Certificates, keys and secrets are read; "
        "no address is bound. With paths, their code is imported, and the declarations of their models are checked.",
        epilog=f"{_EPILOG} Exit status: 0 no problems, 1 problems, 2 wrong usage.",
    )
    serve.add_arguments(check)
    commands.add_parser(
        SCHEMA,
        allow_abbrev=False,
        help="print the JSON Schema of penstock.toml",
        description="Prints the JSON Schema of penstock.toml, for editors.",
    )


def joined(given: Sequence[str]) -> list[str]:
    """The command line, in which a command of two words is one argument."""
    words = [*given]
    return [" ".join(words[:2]), *words[2:]] if " ".join(words[:2]) in (CHECK, SCHEMA) else words


def run(options: argparse.Namespace) -> int:
    """Runs one of the commands. Returns the exit status.

    Raises:
        StartupError: a target cannot be loaded.
    """
    if options.command == SCHEMA:
        from penstock._config import schema
        from penstock._images import describe

        return _print(json.dumps(schema.document(ServerConfig, describe.schema()), indent=2))
    loader = Loader(options.integration, read_options(options.option))
    return _check(options, loader) if options.command == CHECK else _show(options, loader)


def _resolved(options: argparse.Namespace, *defaults: Defaults) -> Resolved[ServerConfig]:
    own = Defaults("default of penstock serve", serve.DEFAULTS, built_in=True)
    return resolve(ServerConfig, serve.sources(options, own, *defaults))


def _show(options: argparse.Namespace, loader: Loader) -> int:
    from penstock._model.settings import described, settings_of

    resolved = _resolved(options, *loader.settings(options.targets))
    if resolved.problems:
        for problem in resolved.problems:
            print(f"penstock: error: {_line(problem)}", file=sys.stderr)
        return 1
    models = [
        settings_of(model, loader.integration_of(target))
        for target in options.targets
        for model in _load(loader, target)
    ]
    settings = rows_of(resolved)
    if options.changed:
        settings = _given(settings)
        models = [model._replace(rows=_given(model.rows)) for model in models]
    if options.json:
        document = {"file": resolved.file, "settings": to_json(settings), "models": described(models)}
        return _print(json.dumps(document, indent=2))
    return _print(
        table([("", settings), *((f"model {name}, version {version}", rows) for name, version, rows in models)])
    )


def _given(rows: list[Row]) -> list[Row]:
    """Rows without defaults."""
    return [row for row in rows if row.is_given]


def _print(text: str) -> int:
    """Prints a text of many lines, which another program may stop to read. Returns the exit status."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The interpreter flushes the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _check(options: argparse.Namespace, loader: Loader) -> int:
    from penstock._server import config_check

    problems: list[str] = []
    try:
        defaults = loader.settings(options.targets)
    except StartupError as error:
        defaults = []
        problems.append(str(error))
    resolved = _resolved(options, *defaults)
    problems += _problems(resolved)
    models = []
    for target in options.targets:
        try:
            models += _load(loader, target)
        except StartupError as error:
            if isinstance(error, LoadError) and isinstance(error.__cause__, Exception):
                print(tracebacks.user_traceback(error.__cause__), file=sys.stderr, end="")
            problems.append(str(error))
    if not problems:
        problems += config_check.of_models(models, resolved.config(), required=bool(options.targets))
    # An integration that does not recognise a target fails twice.
    for problem in dict.fromkeys(problems):
        print(_line(problem))
    if not problems:
        print(f"no problems ({resolved.file or 'no file'})")
    return 1 if problems else 0


def _problems(resolved: Resolved[ServerConfig]) -> Iterator[str]:
    """Problems of the settings, without models."""
    from penstock._images import describe
    from penstock._server import config_check

    yield from resolved.problems
    if resolved.file is not None:
        yield from describe.problems(resolved.file)
    yield from config_check.of_settings(resolved)


def _load(loader: Loader, target: str) -> list[Any]:
    # Output of the code that is imported is not part of the report.
    with redirect_stdout(sys.stderr):
        return loader.load(target)


def _line(text: str) -> str:
    return " ".join(text.split())
