"""`Resources`: shared resources that a model's batches occupy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Resources"]


@dataclass(frozen=True, init=False, slots=True)
class Resources:
    """Shared resources for each batch of a model, of those of the server: `Server(resources={"gpu0": 2})`.

    An instance begins a batch only when all of them are free, and occupies them until the batch has ended.

    Args:
        amounts: Amounts by name of the resource.
        weight: Share among models that wait for the same resources: with 2, twice as many batches as with 1.

    Raises:
        ValueError: a name is empty, an amount is not an integer of 1 or more, or the weight is not above 0.

    Example:
        >>> Resources({"gpu0": 1}, weight=2)
        Resources(amounts=(('gpu0', 1),), weight=2.0)
    """

    amounts: tuple[tuple[str, int], ...]
    """Amounts by name of the resource."""
    weight: float
    """Share among models that wait for the same resources."""

    def __init__(self, amounts: Mapping[str, int], *, weight: float = 1.0) -> None:
        if not isinstance(amounts, Mapping) or not amounts:
            raise ValueError(f"Resources: amounts must be numbers by name, as in {{'gpu0': 1}}, not {amounts!r}")
        for name, amount in amounts.items():
            if not isinstance(name, str) or not name or not name.isprintable():
                raise ValueError(f"Resources: {name!r} is not the name of a resource")
            if not isinstance(amount, int) or isinstance(amount, bool) or not 1 <= amount < 2**31:
                raise ValueError(f"Resources: the amount of {name!r} must be an integer of 1 or more, not {amount!r}")
        if not isinstance(weight, (int, float)) or isinstance(weight, bool) or not 1e-6 <= weight <= 1e6:
            raise ValueError(f"Resources: weight must be above 0 and at most a million, not {weight!r}")
        object.__setattr__(self, "amounts", tuple(sorted(amounts.items())))
        object.__setattr__(self, "weight", float(weight))
