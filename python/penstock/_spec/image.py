"""Image of a served path: base image, requirements, files, ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ImageSpec"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSpec:
    """What an image of something that is served needs. The image's layers come in the order of the fields.

    Example:
        >>> ImageSpec(requirements=("scikit-learn==1.5.2",), files=((Path("app.py"), "app.py"),), serve=("app.py",))
    """

    base_image: str | None = None
    """The image to start from, which has, or can install, its own Python. None for `python:VERSION-slim`."""
    python_version: str | None = None
    """`3.12`. None for the Python that builds; beside a base image, only what its Python has to be."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables, in the build and in the image. Everybody who has the image can read them."""
    system_packages: tuple[str, ...] = ()
    """Packages for apt."""
    commands_before: tuple[str, ...] = ()
    """Shell commands, run by root before the requirements are installed, each a layer."""
    requirements: tuple[str, ...] = ()
    """Lines as of a requirements file."""
    commands_after: tuple[str, ...] = ()
    """Shell commands, run by root after the requirements are installed, each a layer. The files are not there yet."""
    files: tuple[tuple[Path, str], ...] = ()
    """Files and folders here, each with its place in the image; one that is relative is below `/app`."""
    writable: tuple[str, ...] = ()
    """Folders in the image in which the server may make files, beside its home and `/tmp`."""
    serve: tuple[str, ...] = ()
    """Arguments of `penstock serve`, which runs in `/app`. Addresses are added from the ports."""
    http_port: int = 8000
    """Where HTTP listens."""
    grpc_port: int | None = 8001
    """Where gRPC listens; None for nowhere."""
    record: Callable[[str], None] | None = None
    """Told the image's name when it is built, for an integration that writes it down in a file of its own."""
