"""Image requirements of deployments, for `penstock build`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._spec.folders import Found, folders, is_deployment, root_of
from penstock.compat.modelbit._spec.metadata import Metadata, read_metadata
from penstock.images import ImageSpec

__all__ = ["describe"]

PORT = 8000
_NOT_IN_IMAGES = {"secrets.yaml", "__pycache__", ".git", ".penstock"}


def describe(path: Path) -> ImageSpec:
    """What an image of a path needs: of several deployments, all that any of them does.

    Raises:
        StartupError: deployments want what does not go together.
    """
    found = folders(path)
    if not found:
        raise StartupError(
            f"{path} has no deployments of which an image could be made; a script is to be deployed first"
        )
    metadata = {one.folder: read_metadata(one.folder / "metadata.yaml") for one in found}
    system = {name for one in metadata.values() for name in one.system_packages}
    # Where it would lie in a repository, so that what lies beside it is found.
    target = f"deployments/{path.resolve().name}" if is_deployment(path) else path.resolve().name
    return ImageSpec(
        base_image=_only("baseImage", {one.base_image for one in metadata.values()}),
        python_version=_only("pythonVersion", {one.python_version for one in metadata.values()}),
        system_packages=tuple(sorted(system)),
        requirements=("cloudpickle>=3", "PyYAML>=6", *_requirements(found, metadata)),
        files=_files(path, target),
        serve=(target,),
        http_port=PORT,
        grpc_port=None,
    )


def _only(key: str, values: set[str | None]) -> str | None:
    wanted = sorted(one for one in values if one is not None)
    if len(wanted) > 1:
        raise StartupError(f"deployments want {key} {' and '.join(wanted)}: one image has one; build them one by one")
    return wanted[0] if wanted else None


def _requirements(found: list[Found], metadata: Mapping[Path, Metadata]) -> list[str]:
    lines: dict[str, None] = {}
    for one in found:
        file = one.folder / "requirements.txt"
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                if (text := line.strip()) and not text.startswith("#"):
                    lines[text] = None
        if metadata[one.folder].columns and not any(re.match(r"pandas\b", line) for line in lines):
            lines["pandas"] = None
    return [*lines]


def _files(path: Path, target: str) -> tuple[tuple[Path, str], ...]:
    """What an image has: all but secrets, which everybody who has the image could read."""
    files = [(one, f"{target}/{one.name}") for one in sorted(path.iterdir()) if one.name not in _NOT_IN_IMAGES]
    root = root_of(path) if is_deployment(path) else None
    if root is not None:
        beside = ((root / name, name) for name in ("common", "registry"))
        files += [(here, there) for here, there in beside if here.is_dir()]
    return tuple(files)
