"""`Dim`: the size of an axis; `Cost`: the cost of a row, a formula of sizes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

__all__ = ["Cost", "Dim"]

Axes = tuple[tuple[str, int], ...]

_LARGEST = 2**63 - 1
_MOST_TERMS = 64
_MOST_POWER = 8


@dataclass(frozen=True, init=False, slots=True)
class Cost:
    """Cost of a row by its sizes: a sum of products of `Dim`, built with `+`, `*` and `**`.

    It is a formula, not a Python function: the server evaluates it on I/O threads, which never hold the GIL. Since it
    only adds and multiplies, a larger row never costs less.
    """

    terms: tuple[tuple[int, Axes], ...]
    """The summands: a factor, and the inputs and axes whose sizes it is multiplied by."""

    def __init__(self, terms: dict[Axes, int]) -> None:
        if len(terms) > _MOST_TERMS:
            raise ValueError(f"a cost may have at most {_MOST_TERMS} terms, not {len(terms)}")
        for axes, times in terms.items():
            if times > _LARGEST:
                raise ValueError(f"{times} is too large for a cost")
            if len(axes) > _MOST_POWER:
                raise ValueError(f"a cost may multiply at most {_MOST_POWER} sizes, not {len(axes)}")
        object.__setattr__(self, "terms", tuple((times, axes) for axes, times in sorted(terms.items())))

    def __add__(self, other: Cost | int) -> Cost:
        if (given := _cost(other)) is None:
            return NotImplemented
        total = Counter({axes: times for times, axes in self.terms})
        for times, axes in given.terms:
            total[axes] += times
        return Cost(dict(total))

    def __mul__(self, other: Cost | int) -> Cost:
        if (given := _cost(other)) is None:
            return NotImplemented
        total: Counter[Axes] = Counter()
        for times, axes in self.terms:
            for more, further in given.terms:
                total[tuple(sorted((*axes, *further)))] += times * more
        return Cost(dict(total))

    def __pow__(self, power: int) -> Cost:
        if not isinstance(power, int) or isinstance(power, bool) or not 1 <= power <= _MOST_POWER:
            raise ValueError(f"a cost can be raised to the power of 1 to {_MOST_POWER}, not {power!r}")
        product: Cost = self
        for _ in range(power - 1):
            product = product * self
        return product

    __radd__ = __add__
    __rmul__ = __mul__

    def __repr__(self) -> str:
        return " + ".join(_term(times, axes) for times, axes in self.terms)


@dataclass(frozen=True, init=False, slots=True, repr=False)
class Dim(Cost):
    """The size of an input's axis, such as the length of a text or the width of an image.

    Args:
        tensor: The input's name.
        axis: Index of the axis in the declared shape, from 0, without the batch axis.

    Raises:
        ValueError: the name is empty, or the axis is below 0.

    Example:
        >>> Dim("tokens") ** 2 + 16 * Dim("tokens")
        16 * Dim('tokens') + Dim('tokens') * Dim('tokens')
    """

    tensor: str
    """The input's name."""
    axis: int
    """The axis, without the batch axis."""

    def __init__(self, tensor: str, axis: int = 0) -> None:
        if not isinstance(tensor, str) or not tensor:
            raise ValueError(f"Dim: the tensor must be the name of an input, not {tensor!r}")
        if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
            raise ValueError(f"Dim: the axis must be an integer of 0 or more, not {axis!r}")
        for field, value in (("tensor", tensor), ("axis", axis), ("terms", ((1, ((tensor, axis),)),))):
            object.__setattr__(self, field, value)


def _cost(other: object) -> Cost | None:
    if isinstance(other, Cost):
        return other
    if not isinstance(other, int) or isinstance(other, bool):
        return None
    if other < 0:
        raise ValueError(f"a cost only adds and multiplies, so it has no number below 0 like {other}")
    return Cost({(): other} if other else {})


def _term(times: int, axes: Axes) -> str:
    sizes = [f"Dim({tensor!r}, {axis})" if axis else f"Dim({tensor!r})" for tensor, axis in axes]
    return " * ".join(sizes if sizes and times == 1 else [str(times), *sizes])
