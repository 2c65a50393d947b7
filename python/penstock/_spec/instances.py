"""`Threads` and `Processes`: placement and number of a model's instances."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["Processes", "Threads", "processors"]


def processors() -> int:
    """Number of processors that this process may use, by its affinity and its container's CPU quota, rounded down.

    Returns:
        1 or more. `os.cpu_count()` ignores the quota.
    """
    from penstock import _core

    return _core.available_processors()


@dataclass(frozen=True, slots=True)
class Threads:
    """Instances that are threads of one interpreter.

    A class is built once per thread. A function is shared by all threads, and must be thread-safe.

    Args:
        count: Calls of the handler that may run at once.
        inline: Whether short batches are computed on the I/O threads, which saves two thread switches a batch. For one
            instance of a plain handler that takes less than 0.2 ms and depends on no thread: no `threading.local`, no
            object that belongs to the thread which created it. While recent batches take longer, the instance's thread
            computes them.

    Raises:
        ValueError: the count is not 1 or more, or `inline` has a count above 1.

    Example:
        >>> Threads(1, inline=True)
        Threads(count=1, inline=True)
    """

    count: int = 1
    inline: bool = False

    def __post_init__(self) -> None:
        _check_count("Threads", self.count)
        if self.inline and self.count > 1:
            raise ValueError(f"Threads(inline=True) has one instance, not {self.count}")


@dataclass(frozen=True, init=False, slots=True)
class Processes:
    """Instances that are processes, each with its own interpreter.

    They use all cores even if the handler holds the GIL. A crash of a process fails only its own batch, and the process
    is restarted. Each process builds the handler, and so has its own copy of the weights.

    Args:
        count: Number of processes.
        hang_after: Time limit of a batch, in seconds or as a `timedelta`. After it the batch fails, and its process is
            killed. None for no limit.
        abandoned_after: Time after which a process is killed that still computes a batch whose clients have all left
            or timed out. None lets it finish.
        max_rss: Resident memory in bytes at which a process is replaced.
        max_age: Age at which a process is replaced, in seconds or as a `timedelta`.
        max_batches: Number of batches after which a process is replaced.
        gpus: Devices for the CUDA_VISIBLE_DEVICES of each process in turn: `[0, 1]` alternates between two devices,
            `["0,1", "2,3"]` between two pairs.
        threads: Threads of the numeric libraries in each process. None divides the cores evenly, unless the
            environment sets it.
        env: Variables that are added to the environment of the processes.
        python: Interpreter of the processes, for example of a virtual environment; None for the server's. It must be
            CPython 3.10 or later with numpy, and does not need Penstock. It has its own packages.
        factory: Where a process finds the model: a function, as "module:name", and the keyword arguments that it is
            called with, of JSON's types. It returns the same model. None to find what is at the top level of a module,
            or to send code.

    Processes are replaced one at a time: the new one has loaded before the old one ends.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Processes(2, hang_after=30.0, max_batches=100_000)
    """

    count: int
    """Number of processes."""
    hang_after: float | None
    """Time limit of a batch in seconds."""
    abandoned_after: float | None
    """Seconds that a batch may continue without clients."""
    max_rss: int | None
    """Bytes of resident memory at which a process is replaced."""
    max_age: float | None
    """Seconds after which a process is replaced."""
    max_batches: int | None
    """Batches after which a process is replaced."""
    gpus: tuple[str, ...]
    """Devices of each process in turn."""
    threads: int | None
    """Threads of the numeric libraries of each process."""
    env: tuple[tuple[str, str], ...]
    """Variables that are added to their environment."""
    python: str | None
    """The interpreter that runs them; None for the server's."""
    factory: tuple[str, str] | None
    """The function that makes the model in a process, and its keyword arguments as JSON; None for no such."""

    def __init__(
        self,
        count: int,
        *,
        hang_after: float | timedelta | None = None,
        abandoned_after: float | timedelta | None = None,
        max_rss: int | None = None,
        max_age: float | timedelta | None = None,
        max_batches: int | None = None,
        gpus: Iterable[int | str] = (),
        threads: int | None = None,
        env: Mapping[str, str] | None = None,
        python: str | os.PathLike[str] | None = None,
        factory: tuple[str, Mapping[str, Any]] | None = None,
    ) -> None:
        _check_count("Processes", count)
        for name, number in (("max_rss", max_rss), ("max_batches", max_batches), ("threads", threads)):
            if number is not None and (not _is_int(number) or number < 1):
                raise ValueError(f"Processes: {name} must be an integer of 1 or more, or None, not {number!r}")
        values = (
            int(count),
            _limit("hang_after", hang_after),
            _limit("abandoned_after", abandoned_after),
            max_rss,
            _limit("max_age", max_age),
            max_batches,
            tuple(_devices(one) for one in gpus),
            threads,
            tuple(_environment(env or {})),
            None if python is None else os.fspath(python),
            None if factory is None else _maker(*factory),
        )
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)


def _check_count(kind: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 4096:
        raise ValueError(f"{kind}: count must be an integer from 1 to 4096, not {count!r}")


def _maker(function: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    # Imported here, since few models need it.
    import json

    module, _, name = function.partition(":")
    if not module or not name.isidentifier():
        raise ValueError(f"Processes: factory names no function, as 'module:name': {function!r}")
    return function, json.dumps(dict(arguments))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _limit(name: str, value: float | timedelta | None) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.0 < seconds < float("inf"):
        raise ValueError(f"Processes: {name} must be more than 0 seconds or None, not {value!r}")
    return float(seconds)


def _devices(value: object) -> str:
    if (_is_int(value) and int(str(value)) >= 0) or (isinstance(value, str) and value):
        return str(value)
    raise ValueError(f"Processes: gpus must be numbers or texts of devices, not {value!r}")


def _environment(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
            raise ValueError(f"Processes: env must map names of variables to texts, not {name!r} to {value!r}")
        yield name, value
