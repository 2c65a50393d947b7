"""Thread counts of numeric libraries (OpenMP, MKL, OpenBLAS, NumExpr), in this process and in those of models."""

from __future__ import annotations

import logging
import os

from penstock._spec.instances import Processes, processors

__all__ = ["bound_threads", "thread_settings"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables with the thread counts of numeric libraries; torch reads the first two."""

_SET: dict[str, str] = {}
"""Values set by `bound_threads`, which are too large for one process of several."""


def bound_threads() -> None:
    """Sets the thread counts of numeric libraries to the container's CPU quota, where the environment does not.

    Libraries that are loaded afterwards read it. Without a quota they count processors or cores themselves.
    """
    if (count := processors()) < len(os.sched_getaffinity(0)):
        for name in _THREADS:
            if name not in os.environ:
                os.environ[name] = _SET[name] = str(count)


def thread_settings(processes: Processes, model: str) -> list[tuple[str, str]]:
    """Variables with the thread counts of each process of a model. Logs a warning if they exceed the cores."""
    cores = processors()
    share = max(1, cores // processes.count)
    own = dict(processes.env)
    if processes.threads is not None:
        _warn_of_too_many(model, processes, processes.threads, cores, f"threads={share}")
        return [(name, str(processes.threads)) for name in _THREADS]
    environment = {**{name: value for name, value in os.environ.items() if _SET.get(name) != value}, **own}
    given = [int(environment[name]) for name in _THREADS if environment.get(name, "").isdigit()]
    most = max(given, default=share)
    _warn_of_too_many(model, processes, most, cores, f"threads={share}")
    return [(name, str(share)) for name in _THREADS if name not in environment]


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
