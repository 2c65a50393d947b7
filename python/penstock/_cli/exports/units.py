"""`penstock export systemd`: units of systemd for a command line of `penstock serve`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock._cli.settings import add_settings
from penstock._config import listeners, settings, sources
from penstock._config.sockets import inherited
from penstock._export import systemd
from penstock._images.describe import split
from penstock.config import ServerConfig
from penstock.errors import StartupError

__all__ = ["KIND", "add_parser", "run"]

KIND = "systemd"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MEMORY = re.compile(r"[1-9][0-9]*[KMGT]?")

_HIDDEN = {"ProtectHome=": ("/home", "/root", "/run/user"), "PrivateTmp=": ("/tmp", "/var/tmp")}  # noqa: S108 - refused
"""Folders that the service does not see, by the line of the unit that hides them."""

_FILES = (
    "keys_file",
    "tls_certificate",
    "tls_key",
    "tls_client_ca",
    "tls_client_crl",
    "otlp_ca",
    "otlp_certificate",
    "otlp_key",
)
"""Settings that name files."""

_UNPRIVILEGED = 1024
"""The first port that a service without capabilities may open."""


def add_parser(kinds: Any) -> None:
    """Adds the kind to the parser of `penstock export`."""
    parser = kinds.add_parser(
        KIND,
        allow_abbrev=False,
        usage="penstock export systemd PATH[:object] ... [OPTION ...] [SETTING ...]",
        help="a hardened service of systemd, and its sockets",
        description="Prints units of systemd for `penstock serve` with these paths and settings.",
    )
    parser.add_argument("targets", nargs="+", metavar="PATH[:object]", help="file, module or folder to serve")
    parser.add_argument("--name", metavar="NAME", default="penstock", help="name of the units (default: penstock)")
    parser.add_argument("--program", metavar="FILE", help="the command penstock (default: the one of this interpreter)")
    parser.add_argument(
        "--socket",
        metavar="KIND=ADDRESS",
        action="append",
        default=[],
        help=f"address that systemd opens: {', '.join(inherited.NAMES)}; may be given several times",
    )
    parser.add_argument("--gpu", action="store_true", help="access to NVIDIA GPUs")
    parser.add_argument("--memory", metavar="SIZE", help="limit of memory, for example 4G")
    parser.add_argument("--folder", metavar="DIR", help="write a file for each unit there, in place of printing them")
    parser.add_argument("--config", metavar="FILE", help="configuration file of the server")
    add_settings(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: an option or a setting is wrong, or the service could not read a file.
    """
    texts = systemd.units(_service(options))
    if options.folder is None:
        # As `systemctl cat` prints them.
        print("\n".join(f"# /etc/systemd/system/{name}\n{text}" for name, text in texts.items()), end="")
        return 0
    for name, text in texts.items():
        path = Path(options.folder, name)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StartupError(f"--folder: {path} cannot be written: {error.strerror}") from None
        print(path)
    return 0


def _service(options: argparse.Namespace) -> systemd.Service:
    if not _NAME.fullmatch(options.name):
        raise StartupError(f"--name {options.name}: expected letters, digits, '-', '_' and '.'")
    if options.memory is not None and not _MEMORY.fullmatch(options.memory):
        raise StartupError(f"--memory {options.memory}: expected a size such as 512M or 4G")
    given = {one: getattr(options, one.name) for one in fields(ServerConfig) if getattr(options, one.name) is not None}
    flags, files = [], {}
    for setting, text in given.items():
        flag, kind = sources.flag(setting.name), setting.metadata["kind"]
        if setting.name in _FILES and settings.parse(kind, text):
            files[flag] = [_visible(flag, os.path.abspath(path)) for path in text.split(",")]
        else:
            flags += _flags(flag, kind, text)
        _check_ports(setting.name, kind, text)
    targets = [_target(target) for target in options.targets]
    return systemd.Service(
        name=options.name,
        program=_program(options.program),
        targets=targets,
        folder=_folder(targets[0]),
        flags=flags + ([] if options.config is None else ["--config", _visible("--config", options.config)]),
        files=files,
        sockets=_sockets(options.socket),
        gpu=options.gpu,
        memory=options.memory,
    )


def _flags(flag: str, kind: str, text: Any) -> list[str]:
    if kind == "switch":
        return [flag if text == "true" else flag.replace("--", "--no-", 1)]
    if kind == "folders":
        return [word for folder in text for word in (flag, _visible(flag, os.path.abspath(folder)))]
    return [flag, text]


def _program(given: str | None) -> list[str]:
    if given is not None:
        if not os.path.isabs(given):
            raise StartupError(f"--program {given}: expected an absolute path")
        return [_visible("--program", given)]
    script = os.path.join(os.path.dirname(sys.executable), "penstock")
    found = [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "penstock"]
    return [_visible("--program", found[0]), *found[1:]]


def _target(target: str) -> str:
    """The target, with an absolute path if it is one and not the name of a module."""
    path, name = split(target)
    is_path = os.sep in target or path.exists()
    return f"{_visible('PATH', os.path.abspath(path))}{f':{name}' if name else ''}" if is_path else target


def _folder(target: str) -> str | None:
    """The folder of a target, whose `penstock.toml` the server then reads; None for a module."""
    path = str(split(target)[0])
    return (path if os.path.isdir(path) else os.path.dirname(path)) if os.path.isabs(path) else None


def _visible(what: str, path: str) -> str:
    """The path.

    Raises:
        StartupError: the service would not see it.
    """
    path = os.path.abspath(path)
    for line, folders in _HIDDEN.items():
        for folder in folders:
            if os.path.commonpath([path, folder]) == folder:
                raise StartupError(f"{what}: {path} is hidden from the service by {line}; move it to /srv or /opt")
    return path


def _sockets(given: Sequence[str]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for entry in given:
        kind, _, address = entry.partition("=")
        address = listeners.with_host(address)
        if kind not in inherited.NAMES or not listeners.is_address(address) or not _is_bare(address):
            kinds = ", ".join(inherited.NAMES)
            raise StartupError(
                f"--socket {entry}: expected KIND=ADDRESS with {kinds}, and HOST:PORT, PORT or unix:/path"
            )
        found.setdefault(kind, []).append(address)
    return found


def _is_bare(address: str) -> bool:
    """True for an address that systemd can open, and which is not one with a prefix."""
    return listeners.bare(address) == address and listeners.descriptor(address) is None


def _check_ports(name: str, kind: str, text: str) -> None:
    if kind in ("address", "address|same"):
        entries = [(name, settings.parse(kind, text))]
    elif kind == "listeners":
        entries = [(entry.partition("=")[0], entry.partition("=")[2]) for entry in settings.parse(kind, text)]
    else:
        return
    for socket, address in entries:
        port = (address or "").rpartition(":")[2]
        if port.isdecimal() and 0 < int(port) < _UNPRIVILEGED and not address.startswith("fd:"):
            raise StartupError(f"{name}: the service may not open port {port}; use --socket {socket}={address}")
