"""`ObservableDict`: a dictionary with change listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["ObservableDict"]


class ObservableDict(dict[str, Any]):
    """A dictionary that calls its watchers after each change, on the changing thread."""

    def __init__(self, content: Mapping[str, Any] | None = None, watchers: Sequence[Callable[[], None]] = ()) -> None:
        super().__init__(content or {})
        self.watchers = [*watchers]

    def notify(self) -> None:
        """Calls all watchers."""
        for watcher in tuple(self.watchers):
            watcher()

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.notify()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.notify()

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def pop(self, *arguments: Any) -> Any:
        """Overrides the method of `dict`."""
        found = super().pop(*arguments)
        self.notify()
        return found

    def popitem(self) -> tuple[str, Any]:
        """Overrides the method of `dict`."""
        found = super().popitem()
        self.notify()
        return found

    def update(self, *arguments: Any, **named: Any) -> None:
        """Overrides the method of `dict`."""
        super().update(*arguments, **named)
        self.notify()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Overrides the method of `dict`."""
        found = super().setdefault(name, default)
        self.notify()
        return found

    def clear(self) -> None:
        """Overrides the method of `dict`."""
        super().clear()
        self.notify()
