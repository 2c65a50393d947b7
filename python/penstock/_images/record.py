"""Record of the last image of a folder or file, in `.penstock/image.json`."""

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
    """Name of the image."""
    id: str
    """Id of the image, from the builder."""
    builder: str
    """Program that built it."""
    context: str
    """Digest of the build context."""
    http_port: int
    """HTTP port in the image."""
    grpc_port: int | None
    """gRPC port in the image; None if gRPC is off."""
    sources: str = ""
    """Fingerprint of the files that it was built of; empty if there is none."""


def write(path: Path, built: Built) -> Path:
    """Records an image as that of a folder or file. Returns the file of the record."""
    file, name = _record_of(path)
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
    """The last image of a folder or file; None if none was built.

    Raises:
        StartupError: the record cannot be read.
    """
    file, name = _record_of(path)
    image = _images(file).get(name)
    if image is None:
        return None
    try:
        return Built(**image)
    except TypeError:
        raise StartupError(f"{file} is not as penstock build writes it; build the image again") from None


def _record_of(path: Path) -> tuple[Path, str]:
    resolved = path.resolve()
    return (
        (resolved / ".penstock/image.json", ".")
        if resolved.is_dir()
        else (resolved.parent / ".penstock/image.json", resolved.name)
    )


def _images(file: Path) -> dict[str, dict[str, Any]]:
    try:
        images = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise StartupError(f"{file} cannot be read; remove it, and build the image again") from None
    if not isinstance(images, dict) or not all(isinstance(image, dict) for image in images.values()):
        raise StartupError(f"{file} is not as penstock build writes it; remove it, and build the image again")
    return images
