"""The runtime file, such as `inferless-runtime-config.yaml`: packages and CUDA version of an app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import StartupError
from penstock.compat.inferless._spec.yaml_file import read_mapping

__all__ = ["IMAGES", "Runtime", "cuda_of_cog", "read_runtime"]

IMAGES = {
    "11.8.0": ("nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", "3.10"),
    "12.1.1": ("nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04", "3.10"),
    "12.4.1": ("nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", "3.10"),
    "12.9.0": ("nvidia/cuda:12.9.0-cudnn-runtime-ubuntu24.04", "3.12"),
}
"""Base image and its Python version, by CUDA version."""
_KEYS = {"cuda_version", "base_image", "system_packages", "python_packages", "run", "run_commands"}


@dataclass(frozen=True)
class Runtime:
    """Requirements of an app's image."""

    cuda: str = ""
    """CUDA version; empty for none."""
    system_packages: tuple[str, ...] = ()
    python_packages: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Shell commands, run after the packages are installed."""
    warnings: tuple[str, ...] = ()


def read_runtime(path: Path | None) -> Runtime:
    """Reads a runtime file; returns defaults for None.

    Raises:
        StartupError: the file is invalid.
    """
    if path is None:
        return Runtime()
    values, warnings = read_mapping(path), []
    build = values.get("build")
    if "build" not in values and _KEYS & values.keys():
        build = values
        warnings.append(f"{path.name} has no 'build:' above its keys; they are read as its members")
    if build in (None, "", "null"):
        build = {}
    if not isinstance(build, dict):
        raise StartupError(f"{path.name}: 'build' must hold names with values")
    warnings += [f"{path.name}: the key {key!r} is not known" for key in build if key not in _KEYS]
    cuda = str(build.get("cuda_version") or "")
    if cuda and cuda not in IMAGES:
        raise StartupError(f"{path.name}: cuda_version must be one of {', '.join(IMAGES)}, not {cuda!r}")
    base = str(build.get("base_image") or "triton")
    if base not in ("triton", "fastapi"):
        warnings.append(f"{path.name}: base_image must be 'triton' or 'fastapi', not {base!r}; it is ignored")
    return Runtime(
        cuda=cuda,
        system_packages=_texts(path, build, "system_packages"),
        python_packages=_texts(path, build, "python_packages"),
        commands=_texts(path, build, "run") + _texts(path, build, "run_commands"),
        warnings=tuple(warnings),
    )


def cuda_of_cog(version: str) -> str:
    """Returns the CUDA version for one of a `cog.yaml`.

    Raises:
        StartupError: the version is older than 11.
    """
    try:
        number = float(".".join(version.split(".")[:2]))
    except ValueError:
        number = 0.0
    if number < 11:
        raise StartupError(f"cog.yaml: cuda must be 11 or newer, not {version!r}")
    return "11.8.0" if number < 12 else "12.1.1"


def _texts(path: Path, build: dict[str, Any], key: str) -> tuple[str, ...]:
    found = build.get(key)
    if found in (None, "", "null", "~"):
        return ()
    if not isinstance(found, list):
        raise StartupError(f"{path.name}: {key} must be a list, not {found!r}")
    return tuple(str(one) for one in found if one not in (None, "", "null"))
