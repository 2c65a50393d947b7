"""Where a model's handler runs, and how many of it at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["Processes", "Threads", "processors"]


def processors() -> int:
    """The processors that this process may use: of its affinity, within its container's quota, rounded down.

    Returns:
        1 or more. What `os.cpu_count()` says is the machine's, whatever a container may use of it.
    """
    from penstock import _core

    return _core.available_processors()


@dataclass(frozen=True, slots=True)
class Threads:
    """Instances that are threads of one interpreter.

    A class is built once per thread. A function is shared by all of them and so must be safe to run
    several times at once.

    Args:
        count: How many calls of the handler may run at once.

    Raises:
        ValueError: the count is not 1 or more.
    """

    count: int = 1

    def __post_init__(self) -> None:
        _check_count("Threads", self.count)


@dataclass(frozen=True, init=False, slots=True)
class Processes:
    """Instances that are processes, each with an interpreter of its own.

    They compute on all cores however long the handler holds the interpreter, and one that crashes takes
    only its own batch with it: it is started again. Each builds the handler, and so has its own copy of
    the weights.

    Args:
        count: How many processes there are.
        hang_after: A batch that computes for longer, in seconds or as a `timedelta`, is taken to hang: its
            callers are answered with an error, and its process is killed. None for no limit.
        abandoned_after: A process that still computes a batch for so long after the last of its callers
            has left, or has run out of time, is killed. None to let it finish.
        max_rss: From this much resident memory on, in bytes, a process is replaced.
        max_age: From this age on, in seconds or as a `timedelta`.
        max_batches: After so many batches.
        gpus: The devices of each process in turn, for its CUDA_VISIBLE_DEVICES: `[0, 1]` gives every
            other process the other one, `["0,1", "2,3"]` gives each a pair.
        threads: How many threads the numeric libraries of each process may use. None shares the cores
            out evenly, where the environment does not say otherwise.
        env: What else is different in the environment of the processes.
        python: The interpreter that runs them, of a virtual environment of its own, say; None for the server's. It is
            CPython 3.10 or later, has numpy, and needs no Penstock. What it imports is its own.
        factory: Where a process finds the model: a function, as "module:name", and the keyword arguments that it is
            called with, of JSON's types. It returns the same model. None to find what is at the top level of a module,
            or to send code.

    Processes are replaced one at a time: the new one has loaded before the old one goes.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Processes(2, hang_after=30.0, max_batches=100_000)
    """

    count: int
    """How many processes there are."""
    hang_after: float | None
    """Seconds after which a batch is taken to hang."""
    abandoned_after: float | None
    """Seconds that a batch may go on without a caller."""
    max_rss: int | None
    """Bytes of resident memory from which on a process is replaced."""
    max_age: float | None
    """Seconds after which a process is replaced."""
    max_batches: int | None
    """Batches after which a process is replaced."""
    gpus: tuple[str, ...]
    """The devices of each process in turn."""
    threads: int | None
    """Threads of the numeric libraries of each process."""
    env: tuple[tuple[str, str], ...]
    """What else is different in their environment."""
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
    # Not where the package is imported: few need it.
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
