"""Images of deployments, for `penstock build`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._spec.folders import DeploymentFolder, find_folders, is_deployment, repository_root
from penstock.compat.modelbit._spec.metadata import Metadata, read_metadata
from penstock.images import ImageSpec

__all__ = ["describe"]

PORT = 8000
_NOT_IN_IMAGES = {"secrets.yaml", "__pycache__", ".git", ".penstock"}


def describe(path: Path) -> ImageSpec:
    """Returns the image requirements of a path: the union of its deployments'.

    Raises:
        StartupError: there are no deployments, or their requirements conflict.
    """
    found = find_folders(path)
    if not found:
        raise StartupError(
            f"{path} has no deployments to build an image of; run the script and build the folder it writes"
        )
    metadata = {one.folder: read_metadata(one.folder / "metadata.yaml") for one in found}
    system = {name for one in metadata.values() for name in one.system_packages}
    # A deployment keeps its place in the repository, so that it finds `common/` and `registry/`.
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
    distinct = sorted(one for one in values if one is not None)
    if len(distinct) > 1:
        raise StartupError(
            f"{key}: got {' and '.join(distinct)}, expected one value per image; build the deployments one by one"
        )
    return distinct[0] if distinct else None


def _requirements(found: list[DeploymentFolder], metadata: Mapping[Path, Metadata]) -> list[str]:
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
    """Returns the image's files with their paths: all but secrets, which anyone with the image could read."""
    files = [(one, f"{target}/{one.name}") for one in sorted(path.iterdir()) if one.name not in _NOT_IN_IMAGES]
    root = repository_root(path) if is_deployment(path) else None
    if root is not None:
        shared = ((root / name, name) for name in ("common", "registry"))
        files += [(source, target_name) for source, target_name in shared if source.is_dir()]
    return tuple(files)
