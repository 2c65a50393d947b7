"""`penstock build`: makes a container image of what `penstock serve` would serve."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from penstock._images import build, checks, context, describe
from penstock._images.requirements import read_requirements
from penstock._runtime.console import echo
from penstock.errors import StartupError

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "build",
        allow_abbrev=False,
        help="make a container image of a folder or file",
        description="Makes a container image that serves a folder or file, with docker, podman or buildah. Lists are "
        "added to what the folder says of itself; everything else takes its place.",
        epilog="Exit status: 0 built or written, 1 it cannot be, 2 wrong usage.",
    )
    parser.add_argument("target", metavar="PATH[:object]", help="a folder or file that penstock serve takes")
    parser.add_argument("-t", "--tag", metavar="NAME", help="the image's name, digits:1.0 for example")
    parser.add_argument("--integration", metavar="NAME", help="integration that serves the path (default: detected)")
    parser.add_argument("--context", metavar="DIR", help="write the Dockerfile and the files here, and build from it")
    parser.add_argument("--dry-run", action="store_true", help="print the Dockerfile, and do nothing")
    parser.add_argument("--builder", metavar="NAME", help="docker, podman or buildah (default: the first that is here)")
    parser.add_argument("--wheel", metavar="FILE", help="install Penstock from this wheel, not from the package index")
    parser.add_argument("--no-cache", action="store_true", help="have every layer made anew")
    parser.add_argument("--verbose", action="store_true", help="show all that the builder says")
    about = parser.add_argument_group("what the image has", "also keys of [image] in penstock.toml")
    about.add_argument("--base-image", metavar="IMAGE", help="what to start from (default: python:VERSION-slim)")
    about.add_argument("--python", metavar="VERSION", help="its Python (default: the one that runs this)")
    about.add_argument("--apt", metavar="PACKAGE", action="append", default=[], help="a system package")
    about.add_argument("--run-before", metavar="CMD", action="append", default=[], help="run before the requirements")
    about.add_argument("--requirements", metavar="FILE", action="append", default=[], help="packages for pip")
    about.add_argument("--run", metavar="CMD", action="append", default=[], help="run after the requirements")
    about.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="a variable; no secrets")


def run(options: argparse.Namespace) -> int:
    """Carries it out, and gives the exit status.

    Raises:
        StartupError: it cannot be built; the message says why.
    """
    if not options.tag and not options.context and not options.dry_run:
        print("penstock build: error: name the image with -t NAME, or give --context or --dry-run", file=sys.stderr)
        return 2
    if options.tag:
        checks.check_name(options.tag)
    spec, integration = describe.describe(options.target, options.integration)
    spec = describe.over(spec, _said(options), Path())
    wheel = Path(options.wheel) if options.wheel else None
    if options.dry_run:
        print(context.text_of(spec, wheel), end="")
        return 0
    path, named = describe.split(options.target)
    if not options.tag:
        context.write(spec, Path(options.context), wheel=wheel)
        print(f"penstock: wrote {options.context}; build it with: docker build -t NAME {options.context}", flush=True)
        return 0
    by = f" (integration {integration})" if integration != "penstock" else ""
    echo(f"penstock: building {options.target}{by}")
    wanted = build.Wanted(
        builder=options.builder,
        context=Path(options.context) if options.context else None,
        fresh=options.no_cache,
        verbose=options.verbose,
        wheel=wheel,
    )
    built = build.make(spec, options.tag, wanted, of=path, named=named)
    print(f"penstock: built {built.image} ({built.id}) with {built.builder}", flush=True)
    return 0


def _said(options: argparse.Namespace) -> dict[str, Any]:
    said = {
        "base_image": options.base_image,
        "python_version": options.python,
        "system_packages": options.apt,
        "commands_before": options.run_before,
        "requirements": [line for file in options.requirements for line in read_requirements(Path(file))],
        "commands_after": options.run,
        "env": dict(map(_variable, options.env)),
    }
    return {name: value for name, value in said.items() if value}


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise StartupError(f"--env {text}: expected NAME=VALUE")
    return name, value
