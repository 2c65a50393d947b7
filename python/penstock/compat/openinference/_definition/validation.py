"""Validation of definitions: `DefinitionError`, and the list of problems with their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import StartupError

__all__ = ["DefinitionError", "ProblemList"]


class DefinitionError(StartupError, ValueError):
    """An invalid definition.

    Args:
        label: Name of the definition.
        problems: Each as `path: rule`.
    """

    def __init__(self, label: str, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(f"{label} is not a function of Open Inference: {'; '.join(problems)}")


class ProblemList:
    """List of all problems of a definition, so that one error reports all of them."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, path: str, rule: str) -> None:
        """Adds a problem at a path."""
        self.found.append(f"{path}: {rule}")

    def text(self, parent: Mapping[str, Any], path: str, *, required: bool = False) -> str | None:
        """Returns the text at a path. The last part of the path is its key."""
        value = parent.get(path.rpartition(".")[2])
        if value is None:
            if required:
                self.add(path, "is required")
            return None
        if not isinstance(value, str) or not value.strip():
            self.add(path, f"must be a text that is not empty, not {value!r}")
            return None
        return value

    def one_of(self, parent: Mapping[str, Any], path: str, allowed: Mapping[str, Any]) -> Any:
        """Returns the value of a text in `allowed`."""
        value = self.text(parent, path)
        if value is not None and value not in allowed:
            self.add(path, f"must be one of {', '.join(allowed)}, not {value!r}")
            return None
        return None if value is None else allowed[value]

    def items(self, parent: Mapping[str, Any], path: str, read: Callable[[Any, str], Any]) -> list[Any]:
        """Returns the items of a list, parsed by `read`, without the invalid ones."""
        value = parent.get(path.rpartition(".")[2])
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self.add(path, f"must be a list, not {type(value).__name__}")
            return []
        found = [read(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return [one for one in found if one is not None]

    def known(self, parent: Mapping[str, Any], path: str, names: set[str]) -> None:
        """Adds a problem for each unknown key, which is probably misspelled."""
        for name in parent:
            if name not in names:
                self.add(
                    f"{path}.{name}" if path else str(name),
                    f"is not known here, expected one of {', '.join(sorted(names))}",
                )
