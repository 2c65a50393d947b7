"""What in an image's description cannot be built, said before anything is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from penstock._spec.image import ImageSpec
from penstock.errors import StartupError

__all__ = ["HOME", "VENV", "WORKDIR", "check_image", "check_name", "check_spec", "place_of"]

WORKDIR, HOME, VENV = "/app", "/home/penstock", "/opt/venv"
"""Where in an image the code is, where its user may write, and where packages are installed."""

_OLDEST = (3, 10)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+:~-]+)?")
_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_OURS = ("/opt/venv", "/opt/penstock")


def check_spec(spec: ImageSpec) -> None:
    """Refuses what no Dockerfile can say, and what would be in the image and must not.

    Raises:
        StartupError: with the field, what it has, and what is expected.
    """
    if spec.base_image is not None and not _REFERENCE.fullmatch(spec.base_image):
        raise StartupError(f"base_image {spec.base_image!r} is no name of an image, expected one such as debian:12")
    if spec.python_version is not None:
        _check_python(spec.python_version)
    for name, value in spec.env.items():
        _check_variable(name, value)
    for package in spec.system_packages:
        if not _PACKAGE.fullmatch(package):
            raise StartupError(f"system_packages: {package!r} is no name of a package, expected one such as libgomp1")
    for command in (*spec.commands_before, *spec.commands_after):
        if not command.strip() or "\0" in command:
            raise StartupError(f"commands: {command!r} is no command of a shell")
    _check_requirements(spec.requirements)
    for _, place in spec.files:
        place_of(place)
    for place in spec.writable:
        place_of(place)
    for name, port in (("http_port", spec.http_port), ("grpc_port", spec.grpc_port)):
        if port is not None and not 1024 <= port <= 65535:
            raise StartupError(f"{name} {port}: expected 1024 to 65535, the server is not root")
    if spec.http_port == spec.grpc_port:
        raise StartupError(f"http_port and grpc_port are both {spec.http_port}, expected two ports")


def check_name(name: str) -> str:
    """The name of an image that is to be built.

    Raises:
        StartupError: it is none, or one that only a registry can give.
    """
    if not _REFERENCE.fullmatch(name) or "@" in name:
        raise StartupError(f"{name!r} is no name for an image, expected one in lower case such as digits:1.0")
    return name


def check_image(name: str) -> None:
    """The name of an image that is to be run.

    Raises:
        StartupError: it is none.
    """
    if not _REFERENCE.fullmatch(name):
        raise StartupError(f"{name!r} is no name of an image, expected one such as registry.example/digits:1.0")


def place_of(place: str) -> str:
    """The full path of a place in an image.

    Raises:
        StartupError: it is outside of what an image of ours may change.
    """
    full = PurePosixPath(WORKDIR, place)
    if ".." in full.parts or any(not character.isprintable() for character in place):
        raise StartupError(f"files: {place!r} is no place in an image, expected a path without '..'")
    if len(full.parts) < 2 or any(full.is_relative_to(one) for one in _OURS):
        raise StartupError(f"files: {place!r} is taken, expected a place below {WORKDIR}, for example")
    return str(full)


def _check_python(version: str) -> None:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", version)
    if not found:
        raise StartupError(f"python_version {version!r}: expected one such as 3.12")
    if (int(found[1]), int(found[2])) < _OLDEST or found[1] != "3":
        raise StartupError(f"python_version {version}: Penstock runs on Python 3.10 and newer")


def _check_variable(name: str, value: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise StartupError(f"env: {name!r} is no name of a variable")
    if not isinstance(value, str) or any(not character.isprintable() for character in value):
        raise StartupError(f"env: the value of {name} has a line break or is no text, which a Dockerfile cannot say")


def _check_requirements(lines: Iterable[str]) -> None:
    for line in lines:
        start = line.split()[0] if line.split() else ""
        if not start or "\n" in line:
            raise StartupError(f"requirements: {line!r} is no requirement, expected one to a line")
        if re.match(r"-(?:r|c|e)|--(?:requirement|constraint|editable|find-links)\b", start) or _is_local(line):
            raise StartupError(
                f"requirements: {line!r} is about files of this machine, which an image does not have; "
                "name packages, and have files copied"
            )
        if re.search(r"://[^/\s]*@", line) and not re.search(r"://git@", line):
            raise StartupError(
                f"requirements: {_hidden(line)!r} has a password in its address, "
                "which everybody who has the image could read"
            )


def _is_local(line: str) -> bool:
    return line.startswith((".", "/", "~")) or re.search(r"(?:^|[\s@])(?:git\+)?file:", line) is not None


def _hidden(line: str) -> str:
    return re.sub(r"://[^/\s]*@", "://***@", line)
