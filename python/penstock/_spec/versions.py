"""`VersionPolicy`: the versions of a model that serve."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ALL", "VersionPolicy", "in_order", "version_key"]

_EXPECTED = "latest:N, all, or specific:V,V,..."


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Policy: the newest `latest` versions, the versions in `specific`, or all."""

    latest: int = 0
    specific: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> VersionPolicy:
        """Reads `latest:2`, `latest`, `all` or `specific:1,3`.

        Raises:
            ValueError: not of these forms.
        """
        kind, _, rest = text.partition(":")
        if kind == "latest" and re.fullmatch(r"[1-9][0-9]{0,8}", rest or "1"):
            return cls(latest=int(rest or 1))
        if text == "all":
            return cls()
        names = tuple(name for part in rest.split(",") if (name := part.strip()))
        if kind == "specific" and names:
            return cls(specific=names)
        raise ValueError(f"{text!r} is not {_EXPECTED}")

    @classmethod
    def from_config(cls, value: Any) -> VersionPolicy:
        """Reads the `version_policy` of a model's configuration.

        Raises:
            ValueError: not a valid policy; the message has the expected forms.
        """
        expected = "one of {latest: {num_versions: N}}, {all: {}} and {specific: {versions: [...]}}"
        if isinstance(value, Mapping) and len(value) == 1:
            ((kind, inner),) = value.items()
            if kind == "all" and inner == {}:
                return cls()
            if kind == "latest" and isinstance(inner, Mapping) and inner.keys() <= {"num_versions"}:
                count = inner.get("num_versions", 1)
                if isinstance(count, int) and not isinstance(count, bool) and count > 0:
                    return cls(latest=count)
            if kind == "specific" and isinstance(inner, Mapping) and inner.keys() == {"versions"}:
                versions = inner["versions"]
                if (
                    isinstance(versions, list)
                    and versions
                    and all(isinstance(version, (str, int)) for version in versions)
                ):
                    return cls(specific=tuple(map(str, versions)))
        raise ValueError(f"{value!r} is not {expected}")

    def choose(self, versions: Iterable[str]) -> list[str]:
        """The versions that serve, in ascending order."""
        ordered = in_order(versions)
        if self.specific:
            return [version for version in ordered if version in self.specific]
        return ordered[-self.latest :]

    def __str__(self) -> str:
        if self.specific:
            return f"specific:{','.join(self.specific)}"
        return f"latest:{self.latest}" if self.latest else "all"


ALL = VersionPolicy()


def in_order(versions: Iterable[str]) -> list[str]:
    """Ascending: numbers by value, then other texts."""
    return sorted(versions, key=version_key)


def version_key(version: str) -> tuple[int, int, str]:
    """Sort key of versions."""
    # isdecimal alone accepts digits of other scripts.
    return (0, int(version), "") if version.isascii() and version.isdecimal() else (1, 0, version)
