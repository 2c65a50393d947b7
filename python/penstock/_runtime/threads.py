"""Thread counts of numeric libraries (OpenMP, MKL, OpenBLAS, NumExpr), in this process and in those of models."""

from __future__ import annotations

import logging
import os

from penstock._spec.instances import Processes, processors

__all__ = ["bound_threads", "thread_settings"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Where numeric libraries look for how many threads they may use; torch reads the first two."""

_SET: dict[str, str] = {}
"""What `bound_threads` has set: for one process of many it is too much."""


def bound_threads() -> None:
    """Has numeric libraries that are loaded from now on see the container's quota, unless the environment says more.

    Without a quota they count for themselves, some by cores rather than by processors.
    """
    if (count := processors()) < len(os.sched_getaffinity(0)):
        for name in _THREADS:
            if name not in os.environ:
                os.environ[name] = _SET[name] = str(count)


def thread_settings(processes: Processes, model: str) -> list[tuple[str, str]]:
    cores = processors()
    share = max(1, cores // processes.count)
    own = dict(processes.env)
    if processes.threads is not None:
        _warn_of_too_many(model, processes, processes.threads, cores, f"threads={share}")
        return [(name, str(processes.threads)) for name in _THREADS]
    said = {**{name: value for name, value in os.environ.items() if _SET.get(name) != value}, **own}
    given = [int(said[name]) for name in _THREADS if said.get(name, "").isdigit()]
    most = max(given, default=share)
    _warn_of_too_many(model, processes, most, cores, f"threads={share}")
    return [(name, str(share)) for name in _THREADS if name not in said]


def _warn_of_too_many(model: str, processes: Processes, threads: int, cores: int, setting: str) -> None:
    if threads * processes.count <= cores:
        return
    count = processes.count
    setting = f"Processes({count}, {setting})" if count <= cores else f"Processes({cores}, threads=1)"
    logging.getLogger(f"penstock.{model}").warning(
        "model %r: %d processes with %d threads each are more than the %d cores here; set instances=%s",
        model,
        count,
        threads,
        cores,
        setting,
    )
