"""`penstock config`: the settings of a server with their origins."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from typing import Any

from penstock._cli import serve
from penstock._config.report import rows_of, table, to_json
from penstock._config.resolve import Resolved, resolve
from penstock._config.sources import Defaults
from penstock.config import ServerConfig
from penstock.integrations._targets import Loader, read_options

__all__ = ["add_parser", "run"]

_EPILOG = "Flags, PENSTOCK_* variables and files are read as by penstock serve."


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    show = commands.add_parser(
        "config",
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


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: a target cannot be loaded.
    """
    loader = Loader(options.integration, read_options(options.option))
    return _show(options, loader)


def _resolved(options: argparse.Namespace, *defaults: Defaults) -> Resolved[ServerConfig]:
    own = Defaults("default of penstock serve", serve.DEFAULTS, built_in=True)
    return resolve(ServerConfig, serve.sources(options, own, *defaults))


def _show(options: argparse.Namespace, loader: Loader) -> int:
    from penstock._model.settings import settings_of

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
    sections = [
        ("", rows_of(resolved)),
        *((f"model {name}, version {version}", rows) for name, version, rows in models),
    ]
    if options.changed:
        sections = [(title, [row for row in rows if row.is_given]) for title, rows in sections]
    if options.json:
        (_, settings), *others = sections
        described = [
            {"name": model.name, "version": model.version, "settings": to_json(rows)}
            for model, (_, rows) in zip(models, others, strict=True)
        ]
        return _print(json.dumps({"file": resolved.file, "settings": to_json(settings), "models": described}, indent=2))
    return _print(table(sections))


def _print(text: str) -> int:
    """Prints a text of many lines, which another program may stop to read. Returns the exit status."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The interpreter flushes the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _load(loader: Loader, target: str) -> list[Any]:
    # Output of the code that is imported is not part of the report.
    with redirect_stdout(sys.stderr):
        return loader.load(target)


def _line(text: str) -> str:
    return " ".join(text.split())
