"""`AwaitableBool`: a truth value for plain and async callers."""

from __future__ import annotations

from typing import Any

__all__ = ["AwaitableBool"]


class AwaitableBool(int):
    """A truth value that may also be awaited: KServe 0.13 has plain methods where later versions have async ones."""

    def __await__(self) -> Any:
        return self._value().__await__()

    async def _value(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__
