"""What a container image needs, and images made of it. See docs/build.md."""

from __future__ import annotations

from pathlib import Path

from penstock._images.record import Built
from penstock._spec.image import ImageSpec

__all__ = ["Built", "ImageSpec", "build", "recorded", "write_context"]


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
    from penstock._images import build

    wanted = build.Wanted(builder=builder, wheel=Path(wheel) if wheel else None)
    return build.make(spec, name, wanted, of=Path(of) if of else None)


def recorded(path: str | Path) -> Built | None:
    """The image that was built last of a folder or file; None if there is none.

    Raises:
        StartupError: what was remembered cannot be read.
    """
    from penstock._images import record

    return record.read(Path(path))
