"""What a run says of a cluster: checked, and kept to as far as one machine can."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import StartupError

__all__ = ["hints_of", "prepare_volumes"]

_AMOUNT = re.compile(r"(?P<number>\d+)(?P<unit>m|[kKMGTPE]i?)?")
_KINDS = ("cpu", "mem", "gpu", "disk")
_VOLUMES = ("shared_volume", "persistent_volume_claim", "ephemeral", "empty_dir", "image")
_MADE = ("ephemeral", "empty_dir")
"""Volumes that begin empty: a folder will do."""
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def hints_of(resources: Any) -> dict[str, str]:
    """The variables by which libraries keep to a run's `resources`: how many threads they use, which GPUs they see.

    Args:
        resources: What each replica has: `cpu`, `mem`, `gpu` and `disk`, as numbers or texts with a unit.

    Raises:
        StartupError: it is something else; the message names the part.
    """
    if resources is None:
        return {}
    if not isinstance(resources, Mapping):
        raise StartupError(f"resources is {resources!r}, expected an object with cpu, mem, gpu or disk")
    for name, amount in resources.items():
        if name not in _KINDS:
            raise StartupError(f"resources has no {name!r}, only {', '.join(_KINDS)}")
        if amount is not None and (isinstance(amount, bool) or not _AMOUNT.fullmatch(str(amount))):
            raise StartupError(f"resources.{name} is {amount!r}, expected digits, and perhaps a unit such as m or Gi")
    hints: dict[str, str] = {}
    if resources.get("cpu") is not None:
        hints.update(dict.fromkeys(_THREADS, str(max(1, math.ceil(_number(resources["cpu"]))))))
    if resources.get("gpu") is not None:
        hints["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(int(_number(resources["gpu"])))))
    return hints


def prepare_volumes(volumes: Any) -> None:
    """Sees that what a run mounts is where it says: a service here has the files of its machine.

    Raises:
        StartupError: a volume is not described as one, or not there; the message names it.
    """
    if volumes is None:
        return
    if isinstance(volumes, (str, bytes, Mapping)) or not isinstance(volumes, Sequence):
        raise StartupError(f"volumes is {volumes!r}, expected a list of objects")
    for place, one in enumerate(volumes):
        kind, name, path = _volume(place, one)
        if kind in _MADE:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StartupError(f"volume {name!r} cannot be made at {path}: {error.strerror}") from None
        elif not path.exists():
            raise StartupError(
                f"volume {name!r} is to be at {path}, where nothing is: a service here has the files of its machine"
            )


def _volume(place: int, one: Any) -> tuple[str, str, Path]:
    where = f"volumes[{place}]"
    if not isinstance(one, Mapping):
        raise StartupError(f"{where} is {one!r}, expected an object")
    kind, name, path = (one.get(key) for key in ("volume_type", "name", "mount_path"))
    if kind not in _VOLUMES:
        raise StartupError(f"{where}.volume_type is {kind!r}, expected one of {', '.join(_VOLUMES)}")
    if not isinstance(name, str) or not name:
        raise StartupError(f"{where}.name is {name!r}, expected a text")
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise StartupError(f"{where}.mount_path is {path!r}, expected a path from the root on")
    return str(kind), name, Path(path)


def _number(amount: Any) -> float:
    found = _AMOUNT.fullmatch(str(amount))
    assert found is not None
    return int(found["number"]) / (1000 if found["unit"] == "m" else 1)
