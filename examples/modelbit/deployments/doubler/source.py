"""The smallest deployment there is."""


def doubler(half: float) -> float:
    """Twice as much."""
    return half * 2
