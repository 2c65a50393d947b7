"""Flags of the server's settings."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from penstock._config import settings
from penstock.config import ServerConfig

__all__ = ["add_settings", "shown_default"]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each setting to a parser."""
    for setting in fields(ServerConfig):
        _add_setting(parser, setting.name, setting.metadata["kind"], setting.metadata["help"], setting.default)


def _add_setting(parser: argparse.ArgumentParser, name: str, kind: str, text: str, default: Any) -> None:
    flag = "--" + name.replace("_", "-")
    shown = f"{text} (default: {shown_default(kind, default)})".replace("%", "%%")
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


def shown_default(kind: str, default: Any) -> str:
    """A default value as help texts and documentation have it."""
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
