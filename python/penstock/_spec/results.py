"""Results that a handler may return besides plain outputs: `Answers`, `RowErrors`, `Final`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

__all__ = ["Answers", "Final", "RowErrors"]


class Answers:
    """The outputs of each request of a batch, in the order of `ctx.requests`.

    For a handler whose outputs differ in shape between requests, or that computes requests one by one: outputs need not
    be joined into a batch. A handler that streams may yield it too.

    Args:
        each: For each request, the outputs for its rows as if it were alone; or an exception, which fails only this
            request.

    Example:
        >>> def spans(text, ctx):
        ...     ends = itertools.accumulate(one.rows for one in ctx.requests)
        ...     parts = [text[end - one.rows : end] for end, one in zip(ends, ctx.requests)]
        ...     return Answers({"spans": find(part)} for part in parts)
    """

    __slots__ = ("each",)

    each: tuple[Any, ...]
    """Outputs, or the exception, of each request."""

    def __init__(self, each: Iterable[Any]) -> None:
        self.each = tuple(each)

    def __repr__(self) -> str:
        return f"Answers({len(self.each)} requests)"


class RowErrors(Exception):
    """Fails single rows of a batch. Only their clients get an error, the others get their rows.

    A batched handler raises or returns it; one that streams may yield it too. A list that a handler returns
    may instead hold an exception in the place of a row.

    Args:
        errors: The exception of each row that failed, by the row's index in the batch.
        outputs: The handler's result with all rows of the batch. Values of failed rows are ignored. None if every
            row failed.

    Raises:
        TypeError: a key of `errors` is not an integer, or a value is not an exception.
        ValueError: a key is below 0.

    Example:
        >>> def root(x):
        ...     bad = np.flatnonzero(x[:, 0] < 0)
        ...     y = np.sqrt(np.abs(x))
        ...     return RowErrors({row: InvalidInput("x is below 0") for row in bad}, y)
    """

    errors: dict[int, BaseException]
    """The exception of each row that failed."""
    outputs: Any
    """Outputs of all rows; None where every row failed."""

    def __init__(self, errors: Mapping[SupportsIndex, BaseException] | Mapping[int, Any], outputs: Any = None) -> None:
        self.errors = {}
        for place, error in errors.items():
            row = operator.index(place)
            if row < 0:
                raise ValueError(f"RowErrors: row {row} is below 0")
            if not isinstance(error, BaseException):
                raise TypeError(f"RowErrors: row {row} has a {type(error).__name__}, expected an exception")
            self.errors[row] = error
        self.outputs = outputs
        super().__init__(f"{len(self.errors)} rows of the batch failed: {sorted(self.errors)}")


class Final:
    """The last chunk of a stream, or of one row of a batched stream.

    It is optional: if the generator just ends, clients learn of the end after the last chunk.

    Args:
        outputs: The outputs of the chunk; None ends the stream without a further chunk.

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
