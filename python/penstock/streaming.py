"""What handlers that answer in pieces may yield beside their outputs."""

from __future__ import annotations

from typing import Any

__all__ = ["Final"]


class Final:
    """The last piece of a stream, or of one row of a batched stream.

    A generator that simply ends needs none: its callers then learn of the end after the last piece.

    Args:
        outputs: What the handler would yield; None ends without a further piece.

    Example:
        >>> @model(inputs=[Tensor("n", np.int32, [1])], outputs=[Tensor("i", np.int32, [1])])
        ... def count(n):
        ...     for i in range(n[0]):
        ...         yield Final([i]) if i == n[0] - 1 else [i]
    """

    __slots__ = ("outputs",)

    def __init__(self, outputs: Any = None) -> None:
        self.outputs = outputs

    def __repr__(self) -> str:
        return f"Final({'' if self.outputs is None else repr(self.outputs)})"
