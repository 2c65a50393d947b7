"""Checks of an image's description before it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from penstock._spec.image import ImageSpec
from penstock.errors import StartupError

__all__ = ["HOME", "VENV", "WORKDIR", "check_image", "check_name", "check_spec", "image_path"]

WORKDIR, HOME, VENV = "/app", "/home/penstock", "/opt/venv"
"""Folders in an image: the code, the writable home of the user, and the installed packages."""

_OLDEST = (3, 10)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+:~-]+)?")
_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_RESERVED = ("/opt/venv", "/opt/penstock")


def check_spec(spec: ImageSpec) -> None:
    """Checks that a description can be written as a Dockerfile, and has no secrets.

    Raises:
        StartupError: a field is wrong; the message has its value and what is expected.
    """
    if spec.base_image is not None and not _REFERENCE.fullmatch(spec.base_image):
        raise StartupError(
            f"base_image {spec.base_image!r} is not the name of an image, expected one such as debian:12"
        )
    if spec.python_version is not None:
        _check_python(spec.python_version)
    for name, value in spec.env.items():
        _check_variable(name, value)
    for package in spec.system_packages:
        if not _PACKAGE.fullmatch(package):
            raise StartupError(
                f"system_packages: {package!r} is not the name of a package, expected one such as libgomp1"
            )
    for command in (*spec.commands_before, *spec.commands_after):
        if not command.strip() or "\0" in command:
            raise StartupError(f"commands: {command!r} is not a shell command")
    _check_requirements(spec.requirements)
    for _, target in spec.files:
        image_path(target)
    for path in spec.writable:
        image_path(path)
    for name, port in (("http_port", spec.http_port), ("grpc_port", spec.grpc_port)):
        if port is not None and not 1024 <= port <= 65535:
            raise StartupError(f"{name} {port}: expected 1024 to 65535, the server is not root")
    if spec.http_port == spec.grpc_port:
        raise StartupError(f"http_port and grpc_port are both {spec.http_port}, expected two ports")


def check_name(name: str) -> str:
    """Checks the name of an image to build. Returns it.

    Raises:
        StartupError: not a name, or a name with a digest, which only a registry assigns.
    """
    if not _REFERENCE.fullmatch(name) or "@" in name:
        raise StartupError(f"{name!r} is not a name for an image, expected one in lower case such as digits:1.0")
    return name


def check_image(name: str) -> None:
    """Checks the name of an image to run.

    Raises:
        StartupError: not the name of an image.
    """
    if not _REFERENCE.fullmatch(name):
        raise StartupError(f"{name!r} is not the name of an image, expected one such as registry.example/digits:1.0")


def image_path(path: str) -> str:
    """The absolute form of a path in an image.

    Raises:
        StartupError: not a path, or a reserved one.
    """
    full = PurePosixPath(WORKDIR, path)
    if ".." in full.parts or any(not character.isprintable() for character in path):
        raise StartupError(f"files: {path!r} is not a path in an image, expected a path without '..'")
    if len(full.parts) < 2 or any(full.is_relative_to(reserved) for reserved in _RESERVED):
        raise StartupError(f"files: {path!r} is reserved, expected a path below {WORKDIR}, for example")
    return str(full)


def _check_python(version: str) -> None:
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", version)
    if not match:
        raise StartupError(f"python_version {version!r}: expected one such as 3.12")
    if (int(match[1]), int(match[2])) < _OLDEST or match[1] != "3":
        raise StartupError(f"python_version {version}: Penstock runs on Python 3.10 and newer")


def _check_variable(name: str, value: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise StartupError(f"env: {name!r} is not the name of a variable")
    if not isinstance(value, str) or any(not character.isprintable() for character in value):
        raise StartupError(f"env: the value of {name} has a line break or is not text, expected one line")


def _check_requirements(lines: Iterable[str]) -> None:
    for line in lines:
        start = line.split()[0] if line.split() else ""
        if not start or "\n" in line:
            raise StartupError(f"requirements: {line!r} is not a requirement, expected one in each line")
        if re.match(r"-(?:r|c|e)|--(?:requirement|constraint|editable|find-links)\b", start) or _is_local(line):
            raise StartupError(
                f"requirements: {line!r} refers to files of this machine, which an image does not have; "
                "name packages, and copy the files"
            )
        if re.search(r"://[^/\s]*@", line) and not re.search(r"://git@", line):
            raise StartupError(
                f"requirements: {_hidden(line)!r} has a password in its address, "
                "which every user of the image could read"
            )


def _is_local(line: str) -> bool:
    return line.startswith((".", "/", "~")) or re.search(r"(?:^|[\s@])(?:git\+)?file:", line) is not None


def _hidden(line: str) -> str:
    return re.sub(r"://[^/\s]*@", "://***@", line)
