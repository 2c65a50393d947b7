"""What is wrong in a function's definition: where, and which rule it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import StartupError

__all__ = ["Problems", "Wrong"]


class Wrong(StartupError, ValueError):
    """A definition is not what DigitalHub takes.

    Args:
        what: What was read, for the message.
        problems: Each as `path: rule`.
    """

    def __init__(self, what: str, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(f"{what} is no function of Open Inference: {'; '.join(problems)}")


class Problems:
    """Collects all problems of a definition, so that they are told at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, path: str, rule: str) -> None:
        """Notes that a rule is broken at a path."""
        self.found.append(f"{path}: {rule}")

    def text(self, given: Mapping[str, Any], path: str, *, required: bool = False) -> str | None:
        """A text, by the last part of its path."""
        value = given.get(path.rpartition(".")[2])
        if value is None:
            if required:
                self.add(path, "is required")
            return None
        if not isinstance(value, str) or not value.strip():
            self.add(path, f"must be a text that is not empty, not {value!r}")
            return None
        return value

    def one_of(self, given: Mapping[str, Any], path: str, allowed: Mapping[str, Any]) -> Any:
        """What a text stands for."""
        value = self.text(given, path)
        if value is not None and value not in allowed:
            self.add(path, f"must be one of {', '.join(allowed)}, not {value!r}")
            return None
        return None if value is None else allowed[value]

    def items(self, given: Mapping[str, Any], path: str, read: Callable[[Any, str], Any]) -> list[Any]:
        """The items of a list, each as `read` reads it; without those that are wrong."""
        value = given.get(path.rpartition(".")[2])
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self.add(path, f"must be a list, not {type(value).__name__}")
            return []
        found = [read(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return [one for one in found if one is not None]

    def known(self, given: Mapping[str, Any], path: str, names: set[str]) -> None:
        """Notes keys that nobody knows, which most likely are misspelled."""
        for name in given:
            if name not in names:
                self.add(
                    f"{path}.{name}" if path else str(name), f"is not known here; there are {', '.join(sorted(names))}"
                )
