"""Image of a served path: base image, requirements, files, ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ImageSpec"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSpec:
    """Description of the image of a served path. The layers are in the order of the fields.

    Example:
        >>> ImageSpec(requirements=("scikit-learn==1.5.2",), files=((Path("app.py"), "app.py"),), serve=("app.py",))
    """

    base_image: str | None = None
    """Base image, which has Python or can install it with apt; None for `python:VERSION-slim`."""
    python_version: str | None = None
    """Python version, such as `3.12`; None for that of the building process. A base image must have this version."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables, in the build and in the image. All users of the image can read them."""
    system_packages: tuple[str, ...] = ()
    """Packages to install with apt."""
    commands_before: tuple[str, ...] = ()
    """Shell commands of root before the requirements are installed, each a layer."""
    requirements: tuple[str, ...] = ()
    """Lines of a requirements file."""
    commands_after: tuple[str, ...] = ()
    """Shell commands of root after the requirements are installed and before the files are copied, each a layer."""
    files: tuple[tuple[Path, str], ...] = ()
    """Files and folders, each with its path in the image; a relative path is below `/app`."""
    writable: tuple[str, ...] = ()
    """Folders in the image that the server can write to, besides its home and `/tmp`."""
    serve: tuple[str, ...] = ()
    """Arguments of `penstock serve`, which runs in `/app`. Addresses come from the ports."""
    http_port: int = 8000
    """HTTP port."""
    grpc_port: int | None = 8001
    """gRPC port; None if gRPC is off."""
    record: Callable[[str], None] | None = None
    """Called with the image's name after the build, for an integration that stores it in a file."""
