"""What a container image needs, and images made of it. See docs/build.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock._images.recording import Built

__all__ = ["Built", "ImageSpec", "build", "recorded", "write_context"]


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
    """Told the image's name when it is built, for a door that writes it down in a file of its own."""


def write_context(spec: ImageSpec, folder: str | Path, *, wheel: str | Path | None = None) -> Path:
    """Writes what an image is built of: a `Dockerfile`, and all that it copies. The same for the same files.

    Args:
        spec: What the image needs.
        folder: Where: a folder that is new, empty, or was written by this before.
        wheel: Penstock's wheel; else it is installed from the package index, in the version that runs.

    Returns:
        The folder.

    Raises:
        StartupError: the description cannot be built, a file is missing, or the folder has something else in it.
    """
    from penstock._images import context

    return context.write(spec, Path(folder), wheel=Path(wheel) if wheel else None)


def build(
    spec: ImageSpec,
    name: str,
    *,
    of: str | Path | None = None,
    builder: str | None = None,
    wheel: str | Path | None = None,
) -> Built:
    """Builds an image, and tells `spec.record` of it.

    Args:
        spec: What it needs.
        name: Its name, `digits:1.0` for example.
        of: The folder or file that it is of, beside which it is remembered.
        builder: `docker`, `podman` or `buildah`; None for the first that is here and answers.
        wheel: Penstock's wheel, as in `write_context`.

    Raises:
        StartupError: the description cannot be built, there is no builder, or it failed.
    """
    from penstock._images import making

    wanted = making.Wanted(builder=builder, wheel=Path(wheel) if wheel else None)
    return making.make(spec, name, wanted, of=Path(of) if of else None)


def recorded(path: str | Path) -> Built | None:
    """The image that was built last of a folder or file; None if there is none.

    Raises:
        StartupError: what was remembered cannot be read.
    """
    from penstock._images import recording

    return recording.read(Path(path))
