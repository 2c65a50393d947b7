"""File patterns of downloads."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.compat.kserve.logging import logger

__all__ = ["Patterns"]


@dataclass(frozen=True)
class Patterns:
    """Patterns of paths below the source, for `fnmatch`; an empty tuple selects all."""

    allowed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @staticmethod
    def of(allowed: Sequence[str] | None, ignored: Sequence[str] | None) -> Patterns:
        """Returns the given patterns, else those of the environment."""
        patterns = Patterns(
            _of_environment("STORAGE_ALLOW_PATTERNS") if allowed is None else tuple(allowed),
            _of_environment("STORAGE_IGNORE_PATTERNS") if ignored is None else tuple(ignored),
        )
        for name, some in (("Allow", patterns.allowed), ("Ignore", patterns.ignored)):
            if some:
                logger.info("%s patterns: %s", name, list(some))
        return patterns

    def selects(self, path: str) -> bool:
        """Returns whether a file below the source is selected."""
        if self.allowed and not any(fnmatch.fnmatch(path, pattern) for pattern in self.allowed):
            return False
        return not any(fnmatch.fnmatch(path, pattern) for pattern in self.ignored)


def _of_environment(name: str) -> tuple[str, ...]:
    """Returns a variable's JSON list or comma-separated list."""
    text_value = os.environ.get(name, "").strip()
    try:
        given = json.loads(text_value)
    except ValueError:
        given = text_value.split(",")
    texts = [str(one).strip() for one in (given if isinstance(given, list) else [given])]
    return tuple(text for text in texts if text)
