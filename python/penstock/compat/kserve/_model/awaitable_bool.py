"""Who is told when a model says that it is ready, or is not any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compat.kserve.model import BaseKServeModel

__all__ = ["Truth", "listeners"]

listeners: list[Callable[[BaseKServeModel, bool], None]] = []
"""Called whenever a model's `ready` is assigned, on the thread that does it; they must not raise."""


class Truth(int):
    """A truth value that may also be awaited: KServe 0.13 has plain methods where later versions have async ones."""

    def __await__(self) -> Any:
        return self._soon().__await__()

    async def _soon(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__
