"""A dictionary that tells whoever wants to know that it has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Observed"]


class Observed(dict[str, Any]):
    """A dictionary, and whom it tells of each change, on the thread that makes it."""

    def __init__(self, content: Mapping[str, Any] | None = None, watchers: Sequence[Callable[[], None]] = ()) -> None:
        super().__init__(content or {})
        self.watchers = [*watchers]

    def tell(self) -> None:
        """Tells all of them."""
        for watcher in tuple(self.watchers):
            watcher()

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.tell()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.tell()

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def pop(self, *arguments: Any) -> Any:
        """As a dictionary's."""
        found = super().pop(*arguments)
        self.tell()
        return found

    def popitem(self) -> tuple[str, Any]:
        """As a dictionary's."""
        found = super().popitem()
        self.tell()
        return found

    def update(self, *arguments: Any, **named: Any) -> None:
        """As a dictionary's."""
        super().update(*arguments, **named)
        self.tell()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """As a dictionary's."""
        found = super().setdefault(name, default)
        self.tell()
        return found

    def clear(self) -> None:
        """As a dictionary's."""
        super().clear()
        self.tell()
