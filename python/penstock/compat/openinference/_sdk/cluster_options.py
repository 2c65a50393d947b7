"""Cluster options of a run, applied as far as one machine allows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import StartupError

__all__ = ["prepare_volumes", "resource_variables"]

_AMOUNT = re.compile(r"(?P<number>\d+)(?P<unit>m|[kKMGTPE]i?)?")
_KINDS = ("cpu", "mem", "gpu", "disk")
_VOLUMES = ("shared_volume", "persistent_volume_claim", "ephemeral", "empty_dir", "image")
_EMPTY_VOLUMES = ("ephemeral", "empty_dir")
"""Types of volumes that start empty, for which a new folder is enough."""
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def resource_variables(resources: Any) -> dict[str, str]:
    """Returns environment variables that limit libraries to the `resources` of a run: thread counts and visible GPUs.

    Args:
        resources: `cpu`, `mem`, `gpu` and `disk` of each replica, as numbers or texts with a unit.

    Raises:
        StartupError: a resource is invalid; the message names it.
    """
    if resources is None:
        return {}
    if not isinstance(resources, Mapping):
        raise StartupError(f"resources is {resources!r}, expected an object with cpu, mem, gpu or disk")
    for name, amount in resources.items():
        if name not in _KINDS:
            raise StartupError(f"resources has no {name!r}, only {', '.join(_KINDS)}")
        if amount is not None and (isinstance(amount, bool) or not _AMOUNT.fullmatch(str(amount))):
            raise StartupError(
                f"resources.{name} is {amount!r}, expected digits, optionally with a unit such as m or Gi"
            )
    variables: dict[str, str] = {}
    if resources.get("cpu") is not None:
        variables.update(dict.fromkeys(_THREAD_VARIABLES, str(max(1, math.ceil(_number(resources["cpu"]))))))
    if resources.get("gpu") is not None:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(int(_number(resources["gpu"])))))
    return variables


def prepare_volumes(volumes: Any) -> None:
    """Checks that the mount paths of a run exist, and creates the folders of empty volumes.

    Raises:
        StartupError: the description of a volume is invalid, or its path does not exist; the message names it.
    """
    if volumes is None:
        return
    if isinstance(volumes, (str, bytes, Mapping)) or not isinstance(volumes, Sequence):
        raise StartupError(f"volumes is {volumes!r}, expected a list of objects")
    for index, volume in enumerate(volumes):
        kind, name, mount = _volume(index, volume)
        if kind in _EMPTY_VOLUMES:
            try:
                mount.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StartupError(f"volume {name!r} cannot be created at {mount}: {error.strerror}") from None
        elif not mount.exists():
            raise StartupError(
                f"volume {name!r}: {mount} does not exist, and local services see the files of their machine"
            )


def _volume(index: int, volume: Any) -> tuple[str, str, Path]:
    at = f"volumes[{index}]"
    if not isinstance(volume, Mapping):
        raise StartupError(f"{at} is {volume!r}, expected an object")
    kind, name, path = (volume.get(key) for key in ("volume_type", "name", "mount_path"))
    if kind not in _VOLUMES:
        raise StartupError(f"{at}.volume_type is {kind!r}, expected one of {', '.join(_VOLUMES)}")
    if not isinstance(name, str) or not name:
        raise StartupError(f"{at}.name is {name!r}, expected a text")
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise StartupError(f"{at}.mount_path is {path!r}, expected an absolute path")
    return str(kind), name, Path(path)


def _number(amount: Any) -> float:
    found = _AMOUNT.fullmatch(str(amount))
    assert found is not None
    return int(found["number"]) / (1000 if found["unit"] == "m" else 1)
