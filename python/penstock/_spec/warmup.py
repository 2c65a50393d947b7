"""`Warmup`: samples that each instance of a model computes before the model is ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

__all__ = ["Sample", "Samples", "Warmup"]

Sample: TypeAlias = Mapping[str, Any]
"""A value for each input, by name."""

Samples: TypeAlias = "Iterable[Sample] | Callable[[], Iterable[Sample] | Sample]"
"""Samples, or a callable that returns them when the model is loaded."""


class Warmup:
    """Runs a model on samples when it is loaded, before it is ready.

    Each instance computes each sample, on the same path as requests; streams are read to their end.
    A sample that fails fails the load. Warm-up is not counted in statistics or metrics.

    Args:
        samples: A list of dicts with a value for each input, or a callable that returns or yields them;
            it is called at each load. True builds one sample from the inputs: zeros, empty texts
            and example documents, with axes of variable size at 1. Values are as `penstock.testing.Client.infer`
            takes them; for a model with a batch axis they may leave it out.
        repeat: Times that each instance computes each sample.
        batch_sizes: Numbers of rows that each sample, which must be of one row, is repeated to. A size
            above the model's `max_size` is reduced to it.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Warmup([{"x": np.zeros(16, np.float32)}], repeat=3, batch_sizes=[1, 8, 32])
    """

    samples: Samples | bool
    """The samples, or a callable that returns them; True builds one from the inputs."""
    repeat: int
    """Times that each sample is computed."""
    batch_sizes: tuple[int, ...]
    """Numbers of rows that each sample is repeated to; empty leaves samples unchanged."""

    def __init__(self, samples: Samples | bool = True, *, repeat: int = 1, batch_sizes: Iterable[int] = ()) -> None:
        if not _is_count(repeat):
            raise ValueError(f"Warmup: repeat must be an integer of 1 or more, not {repeat!r}")
        self.batch_sizes = tuple(batch_sizes)
        for size in self.batch_sizes:
            if not _is_count(size):
                raise ValueError(f"Warmup: batch_sizes must be integers of 1 or more, not {size!r}")
        if samples is False or isinstance(samples, (Mapping, str, bytes)):
            raise ValueError("Warmup: samples must be True, a list of dicts, or a callable that makes them")
        if not isinstance(samples, bool) and not callable(samples):
            if not isinstance(samples, Iterable):
                raise ValueError("Warmup: samples must be True, a list of dicts, or a callable that makes them")
            # Each load iterates over them, so an iterator would be exhausted by the first.
            samples = list(samples)
        self.samples, self.repeat = samples, repeat

    def __repr__(self) -> str:
        return f"Warmup({self.samples!r}, repeat={self.repeat}, batch_sizes={list(self.batch_sizes)})"


def _is_count(value: object) -> bool:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
