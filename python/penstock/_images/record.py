"""Remembers which image was built of a folder or file: `.penstock/image.json`, beside it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import StartupError

__all__ = ["Built", "read", "write"]


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built."""

    image: str
    """Its name."""
    id: str
    """What it is, as the builder says it."""
    builder: str
    """Which program has it."""
    context: str
    """The digest of what it was built of."""
    http_port: int
    """Where HTTP listens in it."""
    grpc_port: int | None
    """Where gRPC listens in it; None for nowhere."""
    sources: str = ""
    """What the files were that it was built of, to tell whether they have changed; empty where nobody can."""


def write(path: Path, built: Built) -> Path:
    """Remembers an image as that of a folder or file; gives the file that says so."""
    file, name = _place(path)
    images = _images(file)
    images[name] = asdict(built)
    try:
        file.parent.mkdir(exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(images, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(new, file)
    except OSError as error:
        raise StartupError(f"the image is built, but {file} cannot be written: {error.strerror}") from None
    return file


def read(path: Path) -> Built | None:
    """The image of a folder or file; None if none was built.

    Raises:
        StartupError: what was remembered cannot be read.
    """
    file, name = _place(path)
    found = _images(file).get(name)
    if found is None:
        return None
    try:
        return Built(**found)
    except TypeError:
        raise StartupError(f"{file} is not as penstock build writes it; build the image again") from None


def _place(path: Path) -> tuple[Path, str]:
    whole = path.resolve()
    return (
        (whole / ".penstock/image.json", ".") if whole.is_dir() else (whole.parent / ".penstock/image.json", whole.name)
    )


def _images(file: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise StartupError(f"{file} cannot be read; remove it, and build the image again") from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise StartupError(f"{file} is not as penstock build writes it; remove it, and build the image again")
    return found
