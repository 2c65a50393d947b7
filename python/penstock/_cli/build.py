"""`penstock build`: builds a container image that serves a path."""

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
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "build",
        allow_abbrev=False,
        help="build a container image of a folder or file",
        description="Builds a container image that serves a folder or file, with docker, podman or buildah. Options "
        "override the folder's own image settings; lists are added to them.",
        epilog="Exit status: 0 built or written, 1 failed, 2 wrong usage.",
    )
    parser.add_argument("target", metavar="PATH[:object]", help="folder or file, as for serve")
    parser.add_argument("-t", "--tag", metavar="NAME", help="name of the image, for example digits:1.0")
    parser.add_argument("--integration", metavar="NAME", help="integration that serves the path (default: detected)")
    parser.add_argument("--context", metavar="DIR", help="folder for the Dockerfile and files (default: temporary)")
    parser.add_argument("--dry-run", action="store_true", help="print the Dockerfile without building")
    parser.add_argument("--builder", metavar="NAME", help="docker, podman or buildah (default: the first installed)")
    parser.add_argument("--wheel", metavar="FILE", help="wheel of Penstock (default: from the package index)")
    parser.add_argument("--no-cache", action="store_true", help="build every layer again")
    parser.add_argument("--verbose", action="store_true", help="print the builder's output")
    image = parser.add_argument_group("image settings", "also keys of [image] in penstock.toml")
    image.add_argument("--base-image", metavar="IMAGE", help="base image (default: python:VERSION-slim)")
    image.add_argument("--python", metavar="VERSION", help="Python version (default: that of this command)")
    image.add_argument("--apt", metavar="PACKAGE", action="append", default=[], help="system package")
    image.add_argument(
        "--run-before", metavar="CMD", action="append", default=[], help="shell command before the requirements"
    )
    image.add_argument("--requirements", metavar="FILE", action="append", default=[], help="requirements file")
    image.add_argument("--run", metavar="CMD", action="append", default=[], help="shell command after the requirements")
    image.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="variable; not for secrets")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: the image cannot be built.
    """
    if not options.tag and not options.context and not options.dry_run:
        print("penstock build: error: name the image with -t NAME, or give --context or --dry-run", file=sys.stderr)
        return 2
    if options.tag:
        checks.check_name(options.tag)
    spec, integration = describe.describe(options.target, options.integration)
    spec = describe.override(spec, _image_settings(options), Path())
    wheel = Path(options.wheel) if options.wheel else None
    if options.dry_run:
        print(context.dockerfile_text(spec, wheel), end="")
        return 0
    path, object_name = describe.split(options.target)
    if not options.tag:
        context.write(spec, Path(options.context), wheel=wheel)
        print(f"penstock: wrote {options.context}; build it with: docker build -t NAME {options.context}", flush=True)
        return 0
    suffix = f" (integration {integration})" if integration != "penstock" else ""
    echo(f"penstock: building {options.target}{suffix}")
    build_options = build.BuildOptions(
        builder=options.builder,
        context=Path(options.context) if options.context else None,
        no_cache=options.no_cache,
        verbose=options.verbose,
        wheel=wheel,
    )
    built = build.build(spec, options.tag, build_options, source=path, object_name=object_name)
    print(f"penstock: built {built.image} ({built.id}) with {built.builder}", flush=True)
    return 0


def _image_settings(options: argparse.Namespace) -> dict[str, Any]:
    values = {
        "base_image": options.base_image,
        "python_version": options.python,
        "system_packages": options.apt,
        "commands_before": options.run_before,
        "requirements": [line for file in options.requirements for line in read_requirements(Path(file))],
        "commands_after": options.run,
        "env": dict(map(_variable, options.env)),
    }
    return {name: value for name, value in values.items() if value}


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise StartupError(f"--env {text}: expected NAME=VALUE")
    return name, value
