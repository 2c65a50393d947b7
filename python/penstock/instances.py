"""Where a model's handler runs, and how many of it at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Threads"]


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
        if not isinstance(self.count, int) or isinstance(self.count, bool) or not 1 <= self.count <= 4096:
            raise ValueError(f"Threads: count must be an integer from 1 to 4096, not {self.count!r}")
