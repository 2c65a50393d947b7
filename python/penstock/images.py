"""Container images: descriptions, build contexts and builds. See docs/build.md."""

from __future__ import annotations

from pathlib import Path

from penstock._images.record import Built
from penstock._spec.image import ImageSpec

__all__ = ["Built", "ImageSpec", "build", "recorded", "write_context"]


def write_context(spec: ImageSpec, folder: str | Path, *, wheel: str | Path | None = None) -> Path:
    """Writes the build context of an image: a `Dockerfile` and its files. Equal inputs give equal files.

    Args:
        spec: The description of the image.
        folder: A folder that is new, empty, or an older context.
        wheel: A wheel of Penstock; default: this version from the package index.

    Returns:
        The folder.

    Raises:
        StartupError: the description is wrong, a file is missing, or the folder has other files.
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
    """Builds an image, and calls `spec.record` with its name.

    Args:
        spec: The description of the image.
        name: Name of the image, for example `digits:1.0`.
        of: The folder or file of the image, which gets a record of it.
        builder: `docker`, `podman` or `buildah`; None for the first that is installed and works.
        wheel: A wheel of Penstock, as in `write_context`.

    Raises:
        StartupError: the description is wrong, there is no builder, or the build failed.
    """
    from penstock._images import build

    options = build.BuildOptions(builder=builder, wheel=Path(wheel) if wheel else None)
    return build.build(spec, name, options, source=Path(of) if of else None)


def recorded(path: str | Path) -> Built | None:
    """The last image of a folder or file; None if there is none.

    Raises:
        StartupError: the record cannot be read.
    """
    from penstock._images import record

    return record.read(Path(path))
